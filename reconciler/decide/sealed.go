package decide

import (
	"slices"

	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/sops"
	"github.com/godwit-gitops/godwit/render/work"
)

// unsealed renders a copy and decrypts what SOPS encrypted in it, unless the member gets it encrypted, for others to decrypt.
// Where nobody has keys and nobody carries out what is decided, it returns the values that stay unknown.
func (w *works) unsealed(r *work.Renderer, template *manifest.Object, c work.Copy) (made work.Rendered, unknown []sops.Withheld, err error) {
	if w.delivery(c.Cluster.Name) == DeliveryHydrate {
		if made, err = r.Render(c); err == nil {
			err = altered(template, made.Object)
		}
		return made, nil, err
	}
	if problem := template.Sealed.Problem(); !w.Options.Keyless || problem == nil || !problem.Keyless() {
		c.Sealed = template.Sealed
		made, err = r.Render(c)
		return made, nil, err
	}
	if made, err = r.Render(c); err == nil {
		made.Object, unknown, err = template.Sealed.Withhold(made.Object)
	}
	return made, unknown, err
}

// keyless tells of a template whose values are not known.
func (p *pass) keyless(b *bound) {
	if b.template == nil || !p.Options.Keyless {
		return
	}
	problem := b.template.Sealed.Problem()
	if problem == nil || !problem.Keyless() || !slices.ContainsFunc(names(targets(b.next)), func(member string) bool { return p.delivery(member) != DeliveryHydrate }) {
		return
	}
	p.Undecrypted = true
	p.find(sealedFinding(b.template, render.Info, problem, "; its values are not known here"))
}

// sealedFinding is about what is encrypted in an object, at the file that it is encrypted in.
func sealedFinding(o *manifest.Object, severity render.Severity, problem *sops.Problem, more string) render.Finding {
	f := o.Finding(severity, problem.Code, problem.Path, "%s%s", problem.Message, more)
	if problem.File != "" && problem.File != f.File {
		f.File, f.Line = problem.File, problem.Line
	}
	return f
}
