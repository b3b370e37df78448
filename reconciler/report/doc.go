// Package report turns a decision into what people and machines read of it: the plan, and the
// explanation of one workload, as JSON, YAML, text for a terminal and Markdown for a pull request. Each
// is one structure that all its forms print; the names in JSON stay. It also tells the past, from the
// commits of the state branch, and what waits for a person, with the files by which one lets it go.
//
// It promises that every list is sorted, that secret values are never shown, and that names of
// objects, which come from users, cannot break a table or a comment. The package is pure.
package report
