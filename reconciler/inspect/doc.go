// Package inspect asks every member for the objects of one kind, as "kubectl get" asks one cluster:
// the server makes the table, so columns are those people know. A member that does not answer is an
// entry with an error and delays no other.
package inspect
