package decide

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// Observations are the facts about members as last seen. A value is a snapshot: it is never
// changed after it was handed over, and may share objects with other snapshots.
type Observations struct {
	// Members by name. A member that was never looked at is not in it.
	Members map[string]MemberFacts
	// CutOff says why the observer knows that it is cut off from the world; empty means that it does not.
	CutOff string
}

// MemberFacts is what is known of one member.
type MemberFacts struct {
	// Ready is True, False or Unknown after the thresholds of probing; empty means not probed yet.
	Ready metav1.ConditionStatus
	// Reason and Message say why, in the words of the Ready condition.
	Reason, Message string
	// Since is when Ready took its value.
	Since time.Time
	// UID is the kube-system namespace's; empty means not known.
	UID string
	// Version is the API server's, such as v1.36.1; empty means not known.
	Version string
	// APIs are the kinds the member serves, sorted; nil means not known.
	APIs []clusterv1alpha1.APIEnablement
	// APIsComplete is false when a part of discovery failed.
	APIsComplete bool
	// Namespaced tells the scope of kinds that the member serves, by "group/Kind".
	Namespaced map[string]bool
	// Nodes and Resources are the member's capacity as last measured, both or none; nil means not known,
	// as where nodes or pods may not be listed. What was measured stays while the member is away. Resources has
	// AllocatableModelings, one entry a grade, only with models in the Cluster manifest.
	Nodes     *clusterv1alpha1.NodeSummary
	Resources *clusterv1alpha1.ResourceSummary
	// NodeCapacity is measured along with them for the accurate estimator; nil without it, and where nodes
	// cannot be summed up.
	NodeCapacity *clusterv1alpha1.NodeCapacity
	// Copies by the object's identity without version: everything godwit applied, tried to apply or was to delete.
	Copies map[api.ID]CopyFacts
	// Tracked names the other delivery that holds an object of ours for its own, by the object's identity without version;
	// nil means that none does.
	Tracked map[api.ID]string
}

// CopyFacts is what is known of one object on one member.
type CopyFacts struct {
	// Applied is the hash of the work that was applied last; empty means none was.
	Applied string
	// Live is the object as observed; nil means not there or not seen yet.
	Live api.Object
	// Health and Status are given in place of Live by those who have no object: the record and simulated
	// members. Empty and nil mean that they are to be told from Live.
	Health workv1alpha2.ResourceHealth
	Status *runtime.RawExtension
	// Reason and Message describe the last failure to apply or delete; empty means it went well.
	Reason, Message string
	// Gone: the object was to be deleted, and the member confirmed that nothing of ours is left of it.
	Gone bool
}

// Reasons of CopyFacts, stable words that reach the user in appliedMessage.
const (
	// ReasonConflict: another manager owns a field we would change, and the policy says Abort.
	ReasonConflict = "Conflict"
	// ReasonNotOurs: the object was there before and does not carry our marks, and the policy says Abort.
	ReasonNotOurs = "NotOurs"
	// ReasonImmutableField: the change needs the object to be created anew.
	ReasonImmutableField = "ImmutableField"
	// ReasonNoKind: the member does not serve the kind (yet).
	ReasonNoKind = "NoKind"
	// ReasonInvalid: the member's API refused the object.
	ReasonInvalid = "Invalid"
	// ReasonUnreachable: the member did not answer.
	ReasonUnreachable = "Unreachable"
	// ReasonForeign: the member's UID is not the recorded one; nothing is written there.
	ReasonForeign = "ForeignMember"
	// ReasonPaused: the member's registration says that nothing is to be written there for now.
	ReasonPaused = "Paused"
	// ReasonNotAllowed: the member's registration does not let the object's namespace be written to.
	ReasonNotAllowed = "NotAllowed"
	// ReasonForbidden: the service account of the object's project may not write it, or may not be written as.
	ReasonForbidden = "Forbidden"
	// ReasonNotDelivered: whoever applies the member's works has not applied this one as it is, or somebody changed
	// it since.
	ReasonNotDelivered = "NotDelivered"
	// ReasonFailed: anything else; Message has the API's words.
	ReasonFailed = "Failed"
)
