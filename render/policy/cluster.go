package policy

import (
	"cmp"
	"math"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// Cluster decodes, defaults and validates the registration of a member; nil if a finding is an
// error. A lone spec.zone is moved into spec.zones, and resource models are sorted by grade.
func Cluster(o *manifest.Object) (*clusterv1alpha1.Cluster, []render.Finding) {
	return checked(o, func(r *Report, c *clusterv1alpha1.Cluster) {
		// The order matters: models are judged as they are used.
		if c.Spec.Zone != "" && len(c.Spec.Zones) > 0 {
			r.Error("zone-conflict", Path{"spec", "zone"}, "cannot be set together with zones; remove it")
		} else if c.Spec.Zone != "" {
			r.Warning("deprecated", Path{"spec", "zone"}, "is deprecated; write zones: [%s]", c.Spec.Zone)
			c.Spec.Zones, c.Spec.Zone = []string{c.Spec.Zone}, ""
		}
		sortModels(c.Spec.ResourceModels)
		checkCluster(r, c)
	})
}

func checkCluster(r *Report, c *clusterv1alpha1.Cluster) {
	checkClusterName(r, Path{"metadata", "name"}, r.Object.Name)
	at, spec := Path{"spec"}, &c.Spec
	r.Required(at.At("syncMode"), string(spec.SyncMode))
	OneOf(r, at.At("syncMode"), spec.SyncMode, clusterv1alpha1.Push, clusterv1alpha1.Pull)
	if spec.APIEndpoint != "" {
		checkEndpoint(r, at.At("apiEndpoint"), spec.APIEndpoint)
	}
	checkSecretRef(r, at.At("secretRef"), spec.SecretRef)
	checkSecretRef(r, at.At("impersonatorSecretRef"), spec.ImpersonatorSecretRef)
	if spec.InsecureSkipTLSVerification {
		r.Warning("insecure-tls", at.At("insecureSkipTLSVerification"), "lets whoever is between here and the member read the credentials and answer in its place; put a caBundle into the secret instead")
	}
	if spec.ProxyURL != "" {
		checkProxy(r, at.At("proxyURL"), spec.ProxyURL)
	}
	checkLabelValue(r, at.At("provider"), spec.Provider)
	checkLabelValue(r, at.At("region"), spec.Region)
	for i, zone := range spec.Zones {
		checkLabelValue(r, at.At("zones", i), zone)
	}
	checkTaints(r, at.At("taints"), spec.Taints)
	checkModels(r, at.At("resourceModels"), spec.ResourceModels)
}

func checkEndpoint(r *Report, at Path, endpoint string) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		r.Error("endpoint", at, "is no URL; write it as https://host:port")
	case u.Host == "":
		r.Error("endpoint", at, "has no host; write it as https://host:port")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		r.Error("endpoint", at, "must have no user, query or fragment; credentials belong into the secret")
	}
}

func checkProxy(r *Report, at Path, proxy string) {
	u, err := url.Parse(proxy)
	if err != nil {
		r.Error("proxy", at, "is no URL; write it as http://host:port")
		return
	}
	if !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) {
		r.Error("proxy", at, "has the scheme %q; use http, https or socks5", u.Scheme)
	}
}

func checkSecretRef(r *Report, at Path, ref *clusterv1alpha1.LocalSecretReference) {
	if ref == nil {
		return
	}
	r.Required(at.At("namespace"), ref.Namespace)
	r.Required(at.At("name"), ref.Name)
}

// sortModels brings resource models into the order, and to the outer bounds, that Karmada's
// admission gives them. models are the caller's own.
func sortModels(models []clusterv1alpha1.ResourceModel) {
	slices.SortStableFunc(models, func(a, b clusterv1alpha1.ResourceModel) int { return cmp.Compare(a.Grade, b.Grade) })
	if len(models) == 0 {
		return
	}
	first, last := models[0].Ranges, models[len(models)-1].Ranges
	for i := range first {
		first[i].Min = *resource.NewQuantity(0, resource.DecimalSI)
	}
	for i := range last {
		last[i].Max = *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
	}
}

// checkModels checks that the grades cover everything without overlap. The outer bounds are right
// by construction. Positions are those of the sorted list.
func checkModels(r *Report, at Path, models []clusterv1alpha1.ResourceModel) {
	for i, model := range models {
		at := at.At(i)
		for j, interval := range model.Ranges {
			if interval.Max.Cmp(interval.Min) <= 0 {
				r.Error("resource-model", at.At("ranges", j, "max"), "of %s in grade %d must be more than min %s", interval.Name, model.Grade, interval.Min.String())
			}
		}
		if i == 0 {
			continue
		}
		before := models[i-1]
		if before.Grade == model.Grade {
			r.Error("resource-model", at.At("grade"), "%d stands twice; number the grades 0, 1, 2, ...", model.Grade)
		}
		if len(before.Ranges) != len(model.Ranges) {
			r.Error("resource-model", at.At("ranges"), "grade %d has %d resources, grade %d has %d; every grade needs the same", model.Grade, len(model.Ranges), before.Grade, len(before.Ranges))
			continue
		}
		for j, interval := range model.Ranges {
			previous := before.Ranges[j]
			if previous.Name != interval.Name {
				r.Error("resource-model", at.At("ranges", j, "name"), "is %s in grade %d and %s in grade %d; keep one order", interval.Name, model.Grade, previous.Name, before.Grade)
			} else if previous.Max.Cmp(interval.Min) != 0 {
				r.Error("resource-model", at.At("ranges", j, "min"), "of %s in grade %d is %s; it must be the max of grade %d, %s", interval.Name, model.Grade, interval.Min.String(), before.Grade, previous.Max.String())
			}
		}
	}
}
