package events

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// PlacesOf has what is about a member on the Secret that its credentials are in: that of spec.secretRef, or the one of
// Argo CD that it is registered by. One of a kubeconfig has none.
func PlacesOf(fleet corev1.ObjectReference, members map[string]*clusterv1alpha1.Cluster) Places {
	return Places{Fleet: fleet, Member: func(name string) (corev1.ObjectReference, bool) {
		c := members[name]
		if c == nil {
			return corev1.ObjectReference{}, false
		}
		if ref := c.Spec.SecretRef; ref != nil {
			return secretAt(ref.Namespace, ref.Name)
		}
		registration, _ := decide.RegistrationOf(c)
		namespace, name, _ := strings.Cut(registration.Secret, "/")
		return secretAt(namespace, name)
	}}
}

func secretAt(namespace, name string) (corev1.ObjectReference, bool) {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: namespace, Name: name}, namespace != "" && name != ""
}
