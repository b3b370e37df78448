package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/override"
	"github.com/godwit-gitops/godwit/render/policy"
	"github.com/godwit-gitops/godwit/render/project"
)

// projectOf is whose an object is; nil where there are no projects.
func (p *pass) projectOf(o *manifest.Object) *project.Project {
	if o == nil {
		return nil
	}
	return p.Options.Projects.Of(o.Origin.File)
}

// outside is what a source holds beyond the limits of its projects.
type outside struct {
	// units have something of it, by path.
	units map[string]bool
	// objects are its identities, without versions and with their namespaces.
	objects  map[api.ID]bool
	findings []render.Finding
}

// within takes out of units what their projects may not have. It comes before anything compares objects of two files: what
// somebody may not declare is no rival to what others do.
func (p *pass) within(units []manifest.Unit, scopes map[string]bool) ([]manifest.Unit, outside) {
	units = slices.Clone(units)
	out := outside{units: map[string]bool{}, objects: map[api.ID]bool{}}
	if p.Options.Projects == nil {
		return units, out
	}
	// A definition counts where it is allowed alone. Else it could say of a cluster-scoped kind that it is none.
	var definitions []*manifest.Object
	for _, u := range units {
		for _, o := range u.Objects {
			if o.Group == "apiextensions.k8s.io" && o.Kind == "CustomResourceDefinition" && p.projectOf(o).Refuses(unplaced(o.ID)) == nil {
				definitions = append(definitions, o)
			}
		}
	}
	scope := manifest.NewScope(definitions, scopes)
	for i := range units {
		u := &units[i]
		var allowed []*manifest.Object
		for _, o := range u.Objects {
			id := unplaced(o.ID)
			if scope.Namespaced(o.ID, o.Namespace != "") {
				id.Namespace = cmp.Or(o.Namespace, p.Options.DefaultNamespace)
			}
			why := p.projectOf(o).Refuses(id)
			if why == nil {
				allowed = append(allowed, o)
				continue
			}
			out.units[u.Path], out.objects[id.Unversioned()] = true, true
			out.findings = append(out.findings, o.Finding(render.Error, why.Code, why.Field, "%s", why.Message))
		}
		u.Objects = allowed
	}
	return units, out
}

// unplaced is the identity without a namespace.
func unplaced(id api.ID) api.ID {
	id.Namespace = ""
	return id
}

// view is what reaches the templates of a project.
type view struct {
	policies  part[*policy.Set]
	overrides part[*override.Set]
}

// view makes the views of all projects. What is wrong with a policy its own file tells, once.
func (c *compiled) view(m *Memo, last *compiled) {
	all := m.options.Projects.All()
	if all == nil {
		return
	}
	c.views = make(map[*project.Project]view, len(all))
	for _, of := range all {
		reaching := func(objects []*manifest.Object) (list []*manifest.Object) {
			for _, o := range objects {
				if m.options.Projects.Of(o.Origin.File).Reaches(o.Namespace, of) {
					list = append(list, o)
				}
			}
			return list
		}
		before := last.views[of]
		c.views[of] = view{
			before.policies.again(m, reaching(c.policies.objects), policy.Compile),
			before.overrides.again(m, reaching(c.overrides.objects), override.Compile),
		}
	}
}

// reaching is what reaches the templates of a project.
func (c *compiled) reaching(of *project.Project) view {
	if v, ok := c.views[of]; ok {
		return v
	}
	return view{c.policies, c.overrides}
}

// warnOfAccounts says where a project's service account does nothing: who applies the works of those members writes as
// whoever it is told to.
func (p *pass) warnOfAccounts() {
	if len(p.Options.Projects.ServiceAccounts()) == 0 {
		return
	}
	members := map[*project.Project]map[string]bool{}
	for _, b := range p.bound {
		of := p.projectOf(b.template)
		if of.ServiceAccount() == "" || b.next == nil {
			continue
		}
		for _, t := range targets(b.next) {
			if p.delivery(t.Name) != DeliveryHydrate {
				continue
			}
			if members[of] == nil {
				members[of] = map[string]bool{}
			}
			members[of][t.Name] = true
		}
	}
	for _, of := range p.Options.Projects.All() {
		if names := sortedKeys(members[of]); len(names) > 0 {
			p.find(render.Finding{Severity: render.Warning, Code: "project-account", Object: "project " + of.Name(), Message: fmt.Sprintf(
				"its objects are not written as service account %s on %s, where others apply works: say so there, such as by destinationServiceAccounts of Argo CD's AppProject or spec.serviceAccountName of Flux's Kustomization",
				of.ServiceAccount(), strings.Join(names, ", "))})
		}
	}
}

// warnOfMember says where a template runs that its project does not have any more.
func (p *pass) warnOfMember(b *bound) {
	of := p.projectOf(b.template)
	if of == nil {
		return
	}
	var names []string
	for _, t := range targets(b.next) {
		if c := p.fleet.byName[t.Name]; c != nil && !of.AllowsMember(c.Name, c.Labels) {
			names = append(names, c.Name)
		}
	}
	if len(names) > 0 {
		p.find(b.template.Finding(render.Warning, "project-member", nil,
			"it runs on %s, which project %s does not have; what runs stays there until its policy excludes the member", strings.Join(names, ", "), of.Name()))
	}
}
