package decide

import (
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/policy"
)

// codeNotSupported is the code of findings about what is valid and not acted upon yet. A promise
// that would be ignored in silence is worse than one that is refused.
const codeNotSupported = "not-supported"

// policies are the propagation policies in use, and those that are refused.
type policies struct {
	*policy.Set
	refused map[policy.Claim]bool
}

// compilePolicies compiles the policies whose every field is acted upon.
func compilePolicies(objects []*manifest.Object) (*policies, []render.Finding) {
	set, findings := policy.Compile(objects)
	refused := map[policy.Claim]bool{}
	for _, p := range set.Policies() {
		if p.Spec.Failover != nil {
			refused[p.Claim()] = true
			findings = append(findings, p.Source.Finding(render.Error, codeNotSupported, []string{"spec", "failover"},
				"failover is not acted upon by this version, so the policy is not used; take the field out, or use a version that does"))
		}
	}
	if len(refused) == 0 {
		return &policies{set, nil}, findings
	}
	var kept []*manifest.Object
	for _, o := range objects {
		if !refused[policy.Claim{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}] {
			kept = append(kept, o)
		}
	}
	set, _ = policy.Compile(kept)
	return &policies{set, refused}, findings
}

// refuse reports kinds that are valid and not acted upon yet.
func refuse(objects []*manifest.Object) (struct{}, []render.Finding) {
	var findings []render.Finding
	for _, o := range objects {
		findings = append(findings, o.Finding(render.Error, codeNotSupported, nil, "kind %s is not acted upon by this version; take it out, or use a version that does", o.Kind))
	}
	return struct{}{}, findings
}

// evictsNothing warns where a taint would evict in Karmada.
func evictsNothing(o *manifest.Object, path ...string) render.Finding {
	return o.Finding(render.Warning, codeNotSupported, path, "NoExecute keeps new workloads away; this version evicts none that is there")
}
