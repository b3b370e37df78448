package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// examplesArgoCD is what this Argo CD is set up by.
const examplesArgoCD = "../../examples/argocd"

// applicationSet is what is used here of the one in the examples.
type applicationSet struct {
	Spec struct {
		Generators []struct {
			Git struct {
				RepoURL, Revision string
				Directories       []struct {
					Path    string
					Exclude bool
				}
			}
		}
		SyncPolicy struct{ PreserveResourcesOnDeletion bool }
		Template   struct {
			Metadata struct{ Name string }
			Spec     struct {
				Project     string
				Source      argoSource
				Destination struct{ Name string }
				SyncPolicy  struct {
					Automated   struct{ Prune, SelfHeal, AllowEmpty bool }
					SyncOptions []string
				}
			}
		}
	}
}

type argoSource struct {
	RepoURL, TargetRevision, Path string
	Directory                     struct{ Recurse bool }
}

// example decodes one of the examples, and nothing but what it says.
func example(name string, into any) error {
	text, err := os.ReadFile(examplesArgoCD + "/" + name)
	if err != nil {
		return err
	}
	return yaml.Unmarshal(text, into)
}

// folders are those of a tree that the generator finds, with the values of its template.
func (s *applicationSet) folders(files map[string]string) []string {
	found := map[string]bool{}
	for _, d := range s.Spec.Generators[0].Git.Directories {
		for name := range files {
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				if ok, err := path.Match(d.Path, dir); err == nil && ok {
					found[dir] = !d.Exclude
				}
			}
		}
	}
	var dirs []string
	for dir, wanted := range found {
		if wanted {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

func fill(template, dir string) string {
	return strings.NewReplacer("{{.path.path}}", dir, "{{.path.basename}}", path.Base(dir), "{{.path.basenameNormalized}}", path.Base(dir)).Replace(template)
}

// argo is what Argo CD remembers: the objects of an application, by name, on their member.
type argo struct {
	set  applicationSet
	apps map[string]*application
}

type application struct {
	member string
	live   map[string]tracked
}

type tracked struct {
	at   dynamic.ResourceInterface
	name string
}

// argocd plays Argo CD with the ApplicationSet of the examples: it looks once at the state branch, and brings every
// member that has a folder there to what is in it. Its writes do not count for "unwritten".
func (w *world) argocd(ts *testscript.TestScript, args []string) error {
	if len(args) != 0 {
		return errors.New("usage: argocd")
	}
	if w.argo == nil {
		w.argo = &argo{apps: map[string]*application{}}
		if err := example("applicationset.yaml", &w.argo.set); err != nil {
			return err
		}
	}
	files := w.stateFiles()
	there := map[string]bool{}
	var failed error
	spec := &w.argo.set.Spec.Template.Spec
	for _, dir := range w.argo.set.folders(files) {
		name, member := fill(w.argo.set.Spec.Template.Metadata.Name, dir), fill(spec.Destination.Name, dir)
		there[name] = true
		if w.members[member] == nil {
			return fmt.Errorf("application %s: there is no cluster %s", name, member)
		}
		if w.argo.apps[name] == nil {
			w.argo.apps[name] = &application{member: member, live: map[string]tracked{}}
		}
		if err := w.sync(w.argo.apps[name], name, fill(spec.Source.Path, dir), files); err != nil {
			failed = errors.Join(failed, fmt.Errorf("application %s: %w", name, err))
		}
	}
	for name, app := range w.argo.apps {
		if there[name] {
			continue
		}
		if !w.argo.set.Spec.SyncPolicy.PreserveResourcesOnDeletion {
			if err := w.drop(app, map[string]bool{}, "Delete=false"); err != nil {
				failed = errors.Join(failed, fmt.Errorf("application %s: %w", name, err))
				continue
			}
		}
		delete(w.argo.apps, name)
	}
	return failed
}

// sync applies the files of one folder, and prunes.
func (w *world) sync(app *application, name, dir string, files map[string]string) error {
	c, err := w.client(app.member)
	if err != nil {
		return err
	}
	var objects []*unstructured.Unstructured
	for file, text := range files {
		rest, below := strings.CutPrefix(file, dir+"/")
		if !below || strings.Contains(rest, "/") && !w.argo.set.Spec.Template.Spec.Source.Directory.Recurse {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		objects = append(objects, o)
	}
	rank := func(o *unstructured.Unstructured) int {
		return slices.Index([]string{"CustomResourceDefinition", "Namespace"}, o.GetKind())
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(-cmp.Compare(rank(a), rank(b)), cmp.Compare(a.GetNamespace()+a.GetName(), b.GetNamespace()+b.GetName()))
	})
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	wanted := map[string]bool{}
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			c.mapper.Reset()
			return err
		}
		var at dynamic.ResourceInterface = c.dynamic.Resource(mapping.Resource)
		if o.GetNamespace() != "" {
			at = c.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace())
		}
		id := fmt.Sprintf("%s:%s/%s:%s/%s", name, gvk.Group, gvk.Kind, o.GetNamespace(), o.GetName())
		annotations := o.GetAnnotations()
		annotations["argocd.argoproj.io/tracking-id"] = id
		o.SetAnnotations(annotations)
		_, err = at.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "argocd-controller", Force: true})
		w.wrote(app.member, err)
		if err != nil {
			return err
		}
		app.live[id], wanted[id] = tracked{at, o.GetName()}, true
	}
	if !w.argo.set.Spec.Template.Spec.SyncPolicy.Automated.Prune {
		return nil
	}
	return w.drop(app, wanted, "Prune=false")
}

// wrote leaves a write that came to the member out of what "unwritten" counts.
func (w *world) wrote(member string, err error) {
	if err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		w.members[member].marked++
	}
}

// drop deletes what is not wanted any more, but for what has the option.
func (w *world) drop(app *application, wanted map[string]bool, option string) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	for id, o := range app.live {
		if wanted[id] {
			continue
		}
		live, err := o.at.Get(ctx, o.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			delete(app.live, id)
			continue
		case err != nil:
			return err
		case slices.Contains(strings.Split(live.GetAnnotations()["argocd.argoproj.io/sync-options"], ","), option):
			continue
		}
		err = o.at.Delete(ctx, o.name, metav1.DeleteOptions{})
		w.wrote(app.member, err)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		delete(app.live, id)
	}
	return nil
}
