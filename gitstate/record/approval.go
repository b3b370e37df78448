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

// Rewrite is a person's word that the source may go on from a commit that does not follow the one in force. It is dropped
// once the source went on from anywhere.
type Rewrite struct {
	// From is the commit that was in force.
	From string `json:"from"`
	// To is the one to go on from, or from what follows it.
	To   string      `json:"to"`
	Time metav1.Time `json:"time"`
	// By is who approved, as git prints people.
	By string `json:"by"`
}

// Same tells whether two are the same; nil is one too.
func (r *Rewrite) Same(o *Rewrite) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.From == o.From && r.To == o.To && r.Time.Equal(&o.Time) && r.By == o.By
}

// RewriteApproved is the approval that counts: one of a source that went on since does not. Nil means that there is none.
func (m Meta) RewriteApproved() *Rewrite {
	if m.Rewrite == nil || m.Rewrite.From != m.Source.Commit || m.Rewrite.To == "" {
		return nil
	}
	return m.Rewrite
}

func (a Approval) same(o Approval) bool {
	return a.Cluster == o.Cluster && slices.Equal(a.Works, o.Works) && a.Time.Equal(&o.Time) && a.By == o.By
}

// holdsSame tells whether both hold the same back and let the same go: what state.yaml is written for even where
// no other file changes.
func (m Meta) holdsSame(o Meta) bool {
	return slices.Equal(m.Held, o.Held) && slices.Equal(m.Braked, o.Braked) && m.FailoverBrake.Same(o.FailoverBrake) &&
		slices.EqualFunc(m.Approvals, o.Approvals, Approval.same) && m.Rewrite.Same(o.Rewrite)
}
