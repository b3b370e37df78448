// Package project says who may do what with a source that several teams push to: each project holds folders, and what is
// in them may use the namespaces, kinds and members of that project alone.
//
// Projects come from the configuration, which those who push cannot change. A file belongs to the project with the
// longest folder that holds it; folders are compared byte by byte, element by element, so that neither another spelling
// nor a longer name gets in. Where there are projects, a file in none may hold nothing: a project for the folder "." is
// for those who may have all the rest.
//
// Policies reach no further than the project: those in a namespace concern the objects of their own project alone, also
// where several share the namespace. Cluster-scoped kinds, ClusterPropagationPolicy and Cluster among them, are refused
// unless the project lists them; a policy of such a kind then reaches everything, as in Karmada.
//
// On members, what a project has is written as its service account, if it has one: their own rules then say what the team
// may do there, and whoever gets past the limits here is not past those. Nothing that the team writes names the account.
//
// The package is pure, and a Set never changes. A nil Set has no projects, and a nil Project allows everything: it is what
// a file belongs to where there are none.
package project
