package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

func TestNearestSaysWhatDoesNotMatch(t *testing.T) {
	web := Template{ID: api.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default", Name: "web"}, Labels: map[string]string{"app": "web", "tier": "1"}}
	tests := []struct {
		name, policies string
		template       Template
		want           []string
	}{
		{"another name", "pp a - - {apiVersion: apps/v1, kind: Deployment, name: wbe}", web, []string{"a: name: wbe, and the template has web"}},
		{"the nearest name first", "pp a - - {apiVersion: apps/v1, kind: Deployment, name: something}\npp b - - {apiVersion: apps/v1, kind: Deployment, name: wbe}\npp c - - {apiVersion: apps/v1, kind: Deployment, name: other}", web,
			[]string{"b: name: wbe, and the template has web", "c: name: other, and the template has web"}},
		{"labels", "pp a - - {apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {app: api}}}", web,
			[]string{"a: labelSelector: app=api, and the template has app=web,tier=1"}},
		{"no labels", "pp a - - {apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {app: api}}}", Template{ID: web.ID},
			[]string{"a: labelSelector: app=api, and the template has no labels"}},
		{"another version", "pp a - - {apiVersion: apps/v1beta1, kind: Deployment, name: web}", web, []string{"a: apiVersion: apps/v1beta1, and the template has apps/v1"}},
		{"another namespace", "cpp a - - {apiVersion: apps/v1, kind: Deployment, namespace: prod}", web, []string{"a: namespace: prod, and the template has default"}},
		{"the closest selector of a policy", "pp a - - {apiVersion: v1, kind: ConfigMap, name: web}, {apiVersion: apps/v1, kind: Deployment, name: w}", web, []string{"a: name: w, and the template has web"}},
		{"fewer differences first", "cpp a - - {apiVersion: apps/v1, kind: Deployment, namespace: prod, name: web2}\ncpp b - - {apiVersion: apps/v1, kind: Deployment, name: something-else}", web,
			[]string{"b: name: something-else, and the template has web", "a: namespace: prod, and the template has default; name: web2, and the template has web"}},
		{"another kind is not near", "pp a - - {apiVersion: v1, kind: ConfigMap, name: web}", web, nil},
		{"one that selects it is no miss", "pp a - - {apiVersion: apps/v1, kind: Deployment, name: web}", web, nil},
	}
	for _, tt := range tests {
		var got []string
		for _, m := range compile(t, policies(tt.policies)).Nearest(tt.template, 2) {
			got = append(got, m.Policy.Name+": "+m.String())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
	}
}

// A policy without a mismatch selects the template, and one with some does not.
func TestCompareAgreesWithTheIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		oneOf := func(label string, list ...string) string { return rapid.SampledFrom(list).Draw(t, label) }
		template := Template{ID: api.ID{Group: oneOf("group", "", "apps"), Version: "v1", Kind: oneOf("kind", "A", "B"), Namespace: oneOf("ns", "", "x", "y"), Name: oneOf("name", "a", "b")}}
		var selectors []policyv1alpha1.ResourceSelector
		for range rapid.IntRange(1, 3).Draw(t, "n") {
			selectors = append(selectors, policyv1alpha1.ResourceSelector{APIVersion: oneOf("apiVersion", "v1", "apps/v1"), Kind: oneOf("wanted", "A", "B"), Namespace: oneOf("in", "", "x"), Name: oneOf("called", "", "a")})
		}
		matches := NewIndex([]Selection{{Selectors: selectors}}).Match(template.ID, nil)
		if miss := Compare("", selectors, template); (len(miss.Mismatches) == 0) != (len(matches) > 0) {
			t.Fatalf("%+v and %v: mismatches %v, the index finds %v", selectors, template, miss.Mismatches, matches)
		}
	})
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"web", "web", 0}, {"web", "", 3}, {"", "web", 3}, {"web", "wbe", 2}, {"web", "web2", 1}, {"kitten", "sitting", 3}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestASlipIsSmall(t *testing.T) {
	web := Template{ID: api.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default", Name: "web"}, Labels: map[string]string{"app": "web", "tier": "1"}}
	for _, tt := range []struct {
		selector string
		want     bool
	}{
		{"{apiVersion: apps/v1, kind: Deployment, name: wbe}", true}, {"{apiVersion: apps/v1, kind: Deployment, name: another}", false},
		{"{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {app: api}}}", true}, {"{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {app: another}}}", false},
		{"{apiVersion: apps/v1beta1, kind: Deployment, name: web}", true}, {"{apiVersion: apps/v1beta1, kind: Deployment, name: wbe}", false},
		{"{apiVersion: apps/v1, kind: Deploymnet, name: web}", false}, {"{apiVersion: apps/v1, kind: Deployment, name: web}", false},
	} {
		p := compile(t, policies("pp a - - "+tt.selector)).Policies()[0]
		if m := Compare("default", p.Spec.ResourceSelectors, web); m.Slip() != tt.want {
			t.Errorf("%s: slip %t, want %t: %s", tt.selector, m.Slip(), tt.want, m)
		}
	}
}
