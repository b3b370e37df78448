package lead

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// slow is a lock whose writes take a while, and fail on demand.
type slow struct {
	resourcelock.Interface
	takes time.Duration
	err   error
}

func (s *slow) Identity() string { return "a" }

func (s *slow) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	time.Sleep(s.takes) // of synctest: takes no time
	return s.err
}

func TestALockIsHeldForAsLongAsOthersLeaveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := &slow{takes: time.Second}
		h := &held{Interface: lock, deadline: 10 * time.Second}
		update := func(holder string) {
			_ = h.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: holder})
		}
		is := func(when string, want bool) {
			t.Helper()
			if h.now() != want {
				t.Errorf("%s: held is %t", when, !want)
			}
		}
		is("before", false)
		update("a")
		is("renewed", true)
		time.Sleep(9*time.Second - 1) // ten since it was asked for
		is("until the deadline", true)
		time.Sleep(1)
		is("at the deadline", false)
		update("a")
		is("renewed again", true)
		lock.err = errors.New("away")
		time.Sleep(5 * time.Second)
		update("a")
		is("a renewal fails", true)
		time.Sleep(3 * time.Second)
		is("nothing was renewed", false)
		lock.err = nil
		update("a")
		is("at last", true)
		update("")
		is("given back", false)
	})
}
