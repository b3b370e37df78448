package record

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Approval is a person's word that deletions may go on that the brake holds. It covers what it names and nothing that
// comes later, and is dropped when that is done or no longer waits. The brake on evictions and a copy that purge mode
// Never left behind have words of their own: Brake.Approved, and suppressDeletion in an eviction task.
type Approval struct {
	Cluster string `json:"cluster"`
	// Works are the paths of the works whose deletion is approved, sorted.
	Works []string    `json:"works"`
	Time  metav1.Time `json:"time"`
	// By is who approved, as git prints people.
	By string `json:"by"`
}

// DeletionApproved returns who approved that the work at the path is deleted; ok is false if nobody did.
func (m Meta) DeletionApproved(path string) (by string, ok bool) {
	for _, a := range m.Approvals {
		if _, found := slices.BinarySearch(a.Works, path); found {
			return a.By, true
		}
	}
	return "", false
}

// check finds what makes an approval unusable.
func (a Approval) check() error {
	switch {
	case len(a.Works) == 0:
		return errors.New("works: an approval names the works")
	case !slices.IsSorted(a.Works):
		return errors.New("works: are not sorted")
	}
	for _, w := range a.Works {
		if !strings.HasPrefix(w, worksDir+"/") || MemberOf(w) != a.Cluster {
			return fmt.Errorf("works: %s is no work of %q", w, a.Cluster)
		}
	}
	return nil
}

func (a Approval) same(o Approval) bool {
	return a.Cluster == o.Cluster && slices.Equal(a.Works, o.Works) && a.Time.Equal(&o.Time) && a.By == o.By
}

// holdsSame tells whether both hold the same back and let the same go: what state.yaml is written for even where
// no other file changes.
func (m Meta) holdsSame(o Meta) bool {
	return slices.Equal(m.Held, o.Held) && slices.Equal(m.Braked, o.Braked) && m.FailoverBrake.Same(o.FailoverBrake) &&
		slices.EqualFunc(m.Approvals, o.Approvals, Approval.same)
}
