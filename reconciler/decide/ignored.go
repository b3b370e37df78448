package decide

import (
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// codeNotSupported is the code of findings about what is valid in Karmada and not acted upon here.
const codeNotSupported = "not-supported"

// ignored tells of objects that are read and go nowhere. A promise that is ignored in silence is worse than
// one that is refused.
func ignored(objects []*manifest.Object) (struct{}, []render.Finding) {
	var findings []render.Finding
	for _, o := range objects {
		if manifest.Karmada(o.Group) {
			findings = append(findings, o.Finding(render.Warning, codeNotSupported, nil, "kind %s of %s is not acted upon; take it out of the source, or name its file in .godwitignore", o.Kind, o.Group))
		} else {
			findings = append(findings, o.Finding(render.Info, "never-propagated", nil, "objects of this kind or namespace are never propagated, as in Karmada"))
		}
	}
	return struct{}{}, findings
}
