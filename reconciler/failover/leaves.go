package failover

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// Terms are what a workload leaves a member for, sooner or later.
type Terms struct {
	// Unhealthy: its copy there is.
	Unhealthy bool
	// NotReady and Unreachable: the member is.
	NotReady, Unreachable bool
}

// TermsOf asks the rules that Causes has.
func TermsOf(spec *workv1alpha2.ResourceBindingSpec, o Options) Terms {
	leaves := func(key string) bool {
		if o.Compat {
			return false // nobody puts these taints on with NoExecute then
		}
		since := metav1.NewTime(time.Unix(0, 0))
		taint := Taint{Taint: corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: &since}, Outage: true}
		cause, found := Tainted(spec, "", Facts{Taints: func(string) []Taint { return []Taint{taint} }}, o)
		return found && !cause.At.IsZero()
	}
	return Terms{Watched(spec), leaves(clusterv1alpha1.TaintNotReady), leaves(clusterv1alpha1.TaintUnreachable)}
}
