package decide

import (
	"strings"

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

// compilePolicies compiles the policies whose every field is acted upon. What else there is to say of
// a field that refuses its policy would only lead astray, and is left out.
func compilePolicies(objects []*manifest.Object) (*policies, []render.Finding) {
	refused, about := map[policy.Claim]bool{}, map[place]bool{}
	var kept []*manifest.Object
	var findings []render.Finding
	for _, o := range objects {
		spec, _ := o.Content["spec"].(map[string]any)
		if _, ok := spec["failover"].(map[string]any); !ok {
			kept = append(kept, o) // a list is another mistake
			continue
		}
		refused[policy.Claim{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}], about[placeOf(o)] = true, true
		findings = append(findings, o.Finding(render.Error, codeNotSupported, []string{"spec", "failover"},
			"failover is not acted upon by this version, so the policy is not used; take the field out, or use a version that does"))
	}
	if len(refused) == 0 {
		set, findings := policy.Compile(objects)
		return &policies{set, nil}, findings
	}
	_, all := policy.Compile(objects)
	for _, f := range all {
		if !about[place{f.File, f.Object}] || !strings.Contains(f.Message, "failover") && !strings.HasPrefix(f.Code, "differs-") && !strings.HasPrefix(f.Code, "failover") {
			findings = append(findings, f)
		}
	}
	set, _ := policy.Compile(kept)
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
