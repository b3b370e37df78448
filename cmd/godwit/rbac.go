package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/registry"
)

func newRBAC() *cobra.Command {
	var e registry.Enrolment
	var name string
	var kinds []string
	noCapacity := false
	cmd := &cobra.Command{
		Use:   "rbac [--member NAME]",
		Short: "Print what godwit needs to be allowed in a member",
		Long: `rbac prints a service account and what it needs to be allowed in a member, for the kinds that the source uses now: in
every member, as a workload may move there. It asks no cluster. Service accounts of projects it may impersonate. For a member
with delivery: hydrate, where others write, it is to look alone.

Apply it where "godwit clusters join" is not to be used, such as in a member with an agent:
  godwit rbac --member kube02 --account godwit-agent | kubectl --context kube02 apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, output, err := configured(cmd)
			if err != nil {
				return err
			}
			e.Account, e.Capacity, e.Impersonates = cmp.Or(e.Account, c.account()), !noCapacity, c.projects.ServiceAccounts()
			for flag, name := range map[string]string{"account": e.Account, "cluster-namespace": e.Namespace} {
				if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
					return fmt.Errorf("--%s %s: is no name: %s", flag, name, problems[0])
				}
			}
			d, done, err := c.decideOnce(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer done()
			if name != "" {
				member := d.Next.Members[name]
				if member == nil {
					return fmt.Errorf("--member %s: %w", name, noMember(slices.Sorted(maps.Keys(d.Next.Members))))
				}
				e.ReadOnly = decide.DeliveryOf(member) == decide.DeliveryHydrate
			}
			for _, kind := range kinds {
				e.Grants = append(e.Grants, written(kind))
			}
			if len(kinds) == 0 {
				uses, err := c.uses(d)
				if err != nil {
					return err
				}
				e.Grants = uses.grants(nil)
			}
			return printRBAC(cmd.OutOrStdout(), output, e)
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "member", "", "the member, whose delivery tells whether anything is written (default: one that is written to)")
	f.StringVar(&e.Namespace, "cluster-namespace", "godwit-system", "namespace of the service account in the member")
	f.StringVar(&e.Account, "account", "", "name of the service account (default: as clusters join names it)")
	f.StringSliceVar(&kinds, "kinds", nil, "resources that may be written, like deployments.apps,services; * for all (default: those of the kinds that the source uses)")
	f.BoolVar(&noCapacity, "no-capacity", false, "nodes and pods may not be read: nothing is known of what is free")
	return printing(cmd, "yaml", "json")
}

// printRBAC prints objects that kubectl takes.
func printRBAC(w io.Writer, output string, e registry.Enrolment) error {
	objects := e.Access()
	if output == "json" {
		items := make([]any, len(objects))
		for i, o := range objects {
			items[i] = o.Object
		}
		return writeJSON(w, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	}
	for i, o := range objects {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// written is a resource as people write it; * is all of them.
func written(kind string) schema.GroupResource {
	if kind == "*" {
		return schema.GroupResource{Group: "*", Resource: "*"}
	}
	return schema.ParseGroupResource(kind)
}

// uses are the kinds that a source uses, with the resources that its own definitions give them.
type uses struct {
	kinds map[api.ID]bool
	names map[schema.GroupKind]string
}

func (c *Config) uses(d *decide.Decision) (uses, error) {
	u := uses{map[api.ID]bool{}, map[schema.GroupKind]string{}}
	add := func(id api.ID) { u.kinds[api.ID{Group: id.Group, Version: id.Version, Kind: id.Kind}] = true }
	for _, row := range d.Bindings {
		add(row.Template)
	}
	for _, w := range worksOf(d.Next, "") {
		w, err := record.Identify(w)
		if err != nil {
			return u, err
		}
		add(w.ID)
		if w.ID.Kind == "CustomResourceDefinition" {
			u.define(w.Object)
		}
	}
	if c.Namespaces != "none" {
		add(api.ID{Version: "v1", Kind: "Namespace"})
	}
	return u, nil
}

// define learns what a CustomResourceDefinition calls its resource.
func (u *uses) define(o api.Object) {
	spec, _ := o["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	group, _ := spec["group"].(string)
	kind, _ := names["kind"].(string)
	if plural, _ := names["plural"].(string); plural != "" {
		u.names[schema.GroupKind{Group: group, Kind: kind}] = plural
	}
}

// grants are the resources of the kinds, sorted: as a cluster names them, if one is asked, as the source does, or as they
// are named by custom.
func (u *uses) grants(mapper meta.RESTMapper) []schema.GroupResource {
	var grants []schema.GroupResource
	for id := range u.kinds {
		gvk := schema.GroupVersionKind{Group: id.Group, Version: id.Version, Kind: id.Kind}
		guessed, _ := meta.UnsafeGuessKindToResource(gvk)
		resource := guessed.GroupResource()
		if plural := u.names[gvk.GroupKind()]; plural != "" {
			resource.Resource = plural
		}
		if mapper != nil {
			if mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version); err == nil {
				resource = mapping.Resource.GroupResource()
			}
		}
		grants = append(grants, resource)
	}
	slices.SortFunc(grants, func(a, b schema.GroupResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return slices.Compact(grants)
}
