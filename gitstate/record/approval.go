package record

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApprovalKind says what an approval is for.
type ApprovalKind string

const (
	// ApproveDeletions lets deletions go that the brake holds.
	ApproveDeletions ApprovalKind = "Deletions"
	// ApproveFailover lets evictions start although the reconciler takes itself to be cut off.
	ApproveFailover ApprovalKind = "Failover"
)

// Approval is a person's word that something held may go on. It covers what it names and nothing that comes
// later, and is dropped when that is done or no longer waits.
type Approval struct {
	Kind ApprovalKind `json:"kind"`
	// Cluster is the member it is about; empty for Failover.
	Cluster string `json:"cluster,omitempty"`
	// Works are the paths of the works whose deletion is approved, sorted; empty for Failover.
	Works []string `json:"works,omitempty"`
	// Since is when what it answers began, for Failover: a later cut-off needs another approval.
	Since *metav1.Time `json:"since,omitempty"`
	Time  metav1.Time  `json:"time"`
	// By is who approved, as git prints people.
	By string `json:"by"`
}

// CutOff says that the reconciler takes itself, not its members, to be the one that is cut off.
type CutOff struct {
	Since metav1.Time `json:"since"`
	// Message says what made it think so.
	Message string `json:"message,omitempty"`
}

// FailoverApproved tells whether a person let evictions start although the reconciler has taken itself to be cut
// off since then.
func (m Meta) FailoverApproved(since time.Time) bool {
	return slices.ContainsFunc(m.Approvals, func(a Approval) bool {
		return a.Kind == ApproveFailover && a.Since != nil && a.Since.Equal(&metav1.Time{Time: since.UTC().Truncate(time.Second)})
	})
}

// DeletionApproved returns who approved that the work at the path is deleted; ok is false if nobody did.
func (m Meta) DeletionApproved(path string) (by string, ok bool) {
	for _, a := range m.Approvals {
		if a.Kind == ApproveDeletions {
			if _, found := slices.BinarySearch(a.Works, path); found {
				return a.By, true
			}
		}
	}
	return "", false
}

// check finds what makes an approval unusable.
func (a Approval) check() error {
	switch {
	case a.Kind == ApproveFailover && a.Since == nil:
		return fmt.Errorf("since: a Failover approval says which cut-off it answers")
	case a.Kind == ApproveDeletions && len(a.Works) == 0:
		return fmt.Errorf("works: a Deletions approval names the works")
	case a.Kind != ApproveDeletions && a.Kind != ApproveFailover:
		return fmt.Errorf("kind: %q is neither %s nor %s", a.Kind, ApproveDeletions, ApproveFailover)
	case a.Kind == ApproveDeletions && !slices.IsSorted(a.Works):
		return fmt.Errorf("works: are not sorted")
	}
	for _, w := range a.Works {
		if !strings.HasPrefix(w, worksDir+"/") || MemberOf(w) != a.Cluster {
			return fmt.Errorf("works: %s is no work of %q", w, a.Cluster)
		}
	}
	return nil
}

func (a Approval) same(o Approval) bool {
	return a.Kind == o.Kind && a.Cluster == o.Cluster && slices.Equal(a.Works, o.Works) && sameTime(a.Since, o.Since) &&
		a.Time.Equal(&o.Time) && a.By == o.By
}

func sameTime(a, b *metav1.Time) bool { return a == b || a != nil && b != nil && a.Equal(b) }

// holdsSame tells whether both hold the same back and let the same go: what state.yaml is written for even where
// no other file changes.
func (m Meta) holdsSame(o Meta) bool {
	cut := m.CutOff == o.CutOff || m.CutOff != nil && o.CutOff != nil && m.CutOff.Since.Equal(&o.CutOff.Since) && m.CutOff.Message == o.CutOff.Message
	return cut && m.FailoverBrake.Same(o.FailoverBrake) && slices.Equal(m.Held, o.Held) && slices.Equal(m.Braked, o.Braked) && slices.EqualFunc(m.Approvals, o.Approvals, Approval.same)
}
