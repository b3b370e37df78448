package notify

import (
	"iter"
	"slices"
	"time"

	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/notice"
)

// maxMissed bounds how many commits are looked at.
const maxMissed = 1000

// Missed gives the notices of the commits before which a process ended, the oldest first: log has the newest first, and
// from is the last one that was told of. What is older than an hour is not worth telling. What people
// committed they know.
func Missed(log iter.Seq2[store.Commit, error], from string, now time.Time) []notice.Notice {
	var commits []store.Commit
	for c, err := range log {
		if err != nil || string(c.Revision) == from || now.Sub(c.When) >= giveUp || len(commits) == maxMissed {
			break
		}
		if reconciler.Ours(c) {
			commits = append(commits, c)
		}
	}
	var all []notice.Notice
	for _, c := range slices.Backward(commits) {
		source := ""
		if i := slices.IndexFunc(c.Trailers, func(t store.Trailer) bool { return t.Key == "Godwit-Source" }); i >= 0 {
			source = c.Trailers[i].Value
		}
		all = append(all, notice.Of(decide.EventsOf(c.Body), notice.Stamp{Commit: string(c.Revision), Source: source, Time: c.When})...)
	}
	return all
}
