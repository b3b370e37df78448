package credential

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
)

// Keys of the Secret that spec.secretRef names.
const (
	KeyToken    = "token"
	KeyCABundle = "caBundle"
)

var karmadaKeys = keys{"spec.apiEndpoint", "spec.proxyURL", "spec.insecureSkipTLSVerification", KeyCABundle, "", "", KeyToken}

// Karmada reads the Secret that a Cluster names, along with the Cluster's spec.
func Karmada(s *corev1.Secret, c *clusterv1alpha1.Cluster, rules Rules) (*Access, error) {
	a := &Access{
		Server: strings.TrimRight(c.Spec.APIEndpoint, "/"), ProxyURL: c.Spec.ProxyURL, Insecure: c.Spec.InsecureSkipTLSVerification,
		CA: s.Data[KeyCABundle], Token: strings.TrimSpace(string(s.Data[KeyToken])),
		ProxyHeader: c.Spec.ProxyHeader,
	}
	if a.Insecure {
		a.CA = nil // Karmada writes it in any case
	}
	err := a.check(rules, karmadaKeys)
	switch {
	case err != nil:
	case a.Token == "":
		err = wrong(KeyToken, "is required")
	case len(c.Spec.ProxyHeader) > 0 && a.ProxyURL == "":
		err = wrong("spec.proxyHeader", "is set without proxyURL")
	}
	if err != nil {
		return nil, fmt.Errorf("Secret %s/%s of Cluster %s: %w", s.Namespace, s.Name, c.Name, flat(err))
	}
	return a, nil
}
