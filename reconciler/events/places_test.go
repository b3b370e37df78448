package events

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
)

func TestEventsAreOnTheSecretOfAMember(t *testing.T) {
	named, argo, bare := &clusterv1alpha1.Cluster{}, &clusterv1alpha1.Cluster{}, &clusterv1alpha1.Cluster{}
	argo.Annotations = map[string]string{"godwit.dev/registration": `{"name": "argo", "secret": "argocd/cluster-a"}`}
	named.Annotations = argo.Annotations
	named.Spec.SecretRef = &clusterv1alpha1.LocalSecretReference{Namespace: "godwit", Name: "named"}
	p := PlacesOf(corev1.ObjectReference{Kind: "Lease"}, map[string]*clusterv1alpha1.Cluster{"named": named, "argo": argo, "bare": bare})
	for member, want := range map[string]string{"named": "godwit/named", "argo": "argocd/cluster-a", "bare": "", "gone": ""} {
		o, ok := p.Member(member)
		got := ""
		if ok {
			got = o.Namespace + "/" + o.Name
		}
		if got != want || ok && o.Kind != "Secret" {
			t.Errorf("%s: %+v, want %q", member, o, want)
		}
	}
}
