// Package metrics tells Prometheus how the reconciler does.
//
//	reconciler.Progress  ->  figures (pure)  ->  /metrics
//
// It promises: reporting costs a walk over the decision and waits for nobody; a scrape computes nothing and asks no
// member; members that left leave no series behind; label values come from lists that are known, but for the
// names of members and the hosts of client-go's own metrics, of which there are as many as members. A revision is no
// label.
//
// Who makes no Metrics pays nothing: client-go's are connected with the first.
package metrics
