package manifest

import (
	"maps"
	"path"
	"slices"

	"github.com/godwit-gitops/godwit/api/canonical"
)

// kustomization is what the walk wants to know of one.
type kustomization struct {
	file      string
	component bool
	refs      []string // folders, relative to the source, that may hold other kustomizations which it takes charge of
}

// refFields are the fields that may name the folder of another kustomization.
var refFields = []string{"resources", "bases", "components", "generators", "transformers", "validators"}

// kustomization reads the references of a kustomization file. What is wrong with the file is for the builder to say.
func (r *reader) kustomization(dir, file string) kustomization {
	k := kustomization{file: file}
	data, err := r.read(file)
	if err != nil {
		return k
	}
	content, err := canonical.Parse(data)
	if err != nil {
		return k
	}
	k.component = content["kind"] == "Component"
	for _, field := range refFields {
		list, _ := content[field].([]any)
		for _, e := range list {
			if ref, ok := e.(string); ok && !path.IsAbs(ref) && (r.Holds == nil || r.Holds(dir, path.Join(dir, ref))) {
				k.refs = append(k.refs, path.Join(dir, ref))
			}
		}
	}
	return k
}

// roots are the folders to build: those with a kustomization that no other refers to. Components
// are no roots, so unused ones are for nothing. Of kustomizations that refer to each other in a
// circle the first is built, for the builder to refuse it.
func (r *reader) roots() (roots, unused []string) {
	referred := map[string]bool{}
	for dir, k := range r.kustomizations {
		for _, ref := range k.refs {
			referred[ref] = referred[ref] || ref != dir
		}
	}
	reached := map[string]bool{}
	var reach func(dir string)
	reach = func(dir string) {
		if k, ok := r.kustomizations[dir]; ok && !reached[dir] {
			reached[dir] = true
			for _, ref := range k.refs {
				reach(ref)
			}
		}
	}
	dirs := slices.Sorted(maps.Keys(r.kustomizations))
	take := func(wanted func(dir string) bool) {
		for _, dir := range dirs {
			if !wanted(dir) {
				continue
			}
			reach(dir)
			if r.kustomizations[dir].component {
				unused = append(unused, dir)
			} else {
				roots = append(roots, dir)
			}
		}
	}
	take(func(dir string) bool { return !referred[dir] })
	take(func(dir string) bool { return !reached[dir] })
	return roots, unused
}

// owned tells whether a kustomization is responsible for the files of the folder.
func (r *reader) owned(dir string) bool {
	for ; ; dir = path.Dir(dir) {
		if _, ok := r.kustomizations[dir]; ok {
			return true
		}
		if dir == "." {
			return false
		}
	}
}
