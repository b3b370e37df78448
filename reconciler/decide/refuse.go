package decide

import (
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// codeNotSupported is the code of findings about what is valid and not acted upon yet. A promise
// that would be ignored in silence is worse than one that is refused.
const codeNotSupported = "not-supported"

// refuse reports kinds that are valid and not acted upon yet.
func refuse(objects []*manifest.Object) (struct{}, []render.Finding) {
	var findings []render.Finding
	for _, o := range objects {
		findings = append(findings, o.Finding(render.Error, codeNotSupported, nil, "kind %s is not acted upon by this version; take it out, or use a version that does", o.Kind))
	}
	return struct{}{}, findings
}
