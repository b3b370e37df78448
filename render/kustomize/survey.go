package kustomize

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
)

// Limits on what a kustomization refers to.
const (
	maxFolders = 2000    // kustomizations in one build, each as often as it is built
	maxLevels  = 50      // kustomizations that refer to each other in a row
	maxNodes   = 500_000 // values in a file, each alias as often as it is written
	maxRead    = 128 << 20
)

// survey looks through all that a build would read.
type survey struct {
	fsys   fs.FS
	sizes  map[string]int // folders built for each folder; 0 while it is looked through
	way    []string       // from the root to the current folder
	schema bool           // a kustomization chooses an OpenAPI schema
	errs   []error
}

// page is a kustomization file under survey.
type page struct {
	*survey
	dir  string
	file string
	root *yaml.Node
}

// root surveys the build of dir and returns its kustomization file.
func (s *survey) root(dir string) (file string) {
	file, _ = s.kustomizationFile(dir)
	if s.folder(dir, &page{survey: s, file: file}, "") > maxFolders {
		s.errs = append(s.errs, &Error{File: file, Err: fmt.Errorf("more than %d kustomizations, counting each as often as others refer to it", maxFolders)})
	}
	return file
}

func (s *survey) err() error { return errors.Join(s.errs...) }

// inputs are the folders that were seen, without those inside others.
func (s *survey) inputs() (dirs []string) {
	for dir := range s.sizes {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return slices.DeleteFunc(dirs, func(dir string) bool {
		return slices.ContainsFunc(dirs, func(above string) bool { return above != dir && within(dir, above) })
	})
}

func within(name, dir string) bool { return dir == "." || strings.HasPrefix(name, dir+"/") }

// kustomizationFile is the kustomization file of dir.
func (s *survey) kustomizationFile(dir string) (string, error) {
	var found []string
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		if info, err := fs.Stat(s.fsys, path.Join(dir, base)); err == nil && !info.IsDir() {
			found = append(found, path.Join(dir, base))
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return dir, fmt.Errorf("the folder %s has no kustomization file", dir)
	default:
		return found[0], fmt.Errorf("the folder %s has more than one kustomization file: %s", dir, strings.Join(found, ", "))
	}
}

// folder surveys the kustomization in dir, to which ref on the page from refers, and returns how
// many kustomizations are built for it.
func (s *survey) folder(dir string, from *page, ref string) int {
	if size, ok := s.sizes[dir]; ok {
		if size == 0 {
			from.refuse(ref, "kustomizations refer to each other in a circle: %s", strings.Join(append(s.way[slices.Index(s.way, dir):], dir), " -> "))
		}
		return size
	}
	if len(s.way) == maxLevels {
		from.refuse(ref, "more than %d kustomizations refer to each other in a row", maxLevels)
		return 1
	}
	file, err := s.kustomizationFile(dir)
	if err != nil {
		from.refuse(ref, "%w", err)
		return 1
	}
	s.sizes[dir] = 0
	s.way = append(s.way, dir)
	size := 1
	if p, k := s.open(dir, file); k != nil {
		size += p.references(k)
	}
	s.way = s.way[:len(s.way)-1]
	s.sizes[dir] = min(size, maxFolders+1)
	return s.sizes[dir]
}

// open reads a kustomization file exactly as kustomize does: it forgives the case of field names, and so must we.
func (s *survey) open(dir, file string) (*page, *types.Kustomization) {
	p := &page{survey: s, dir: dir, file: file}
	data, err := read(s.fsys, file)
	if err != nil {
		p.refuse("", "%w", err)
		return p, nil
	}
	var doc yaml.Node
	if yaml.Unmarshal(data, &doc) == nil && len(doc.Content) == 1 {
		p.root = doc.Content[0]
	}
	k := new(types.Kustomization)
	if err := k.Unmarshal(data); err != nil {
		p.refuse("", "%s", discreet(hide(s.fsys, map[string]bool{file: true}, err.Error())))
		return p, nil
	}
	k.FixKustomization()
	return p, k
}

// refuse adds an error at the line where text stands on the page; empty text means the file as a whole.
func (p *page) refuse(text string, format string, args ...any) {
	e := &Error{File: p.file, Line: lineOf(p.root, text), Err: fmt.Errorf(format, args...)}
	p.errs = append(p.errs, e)
}

// lineOf is the first line on which a scalar begins that is text; 0 if there is none.
func lineOf(n *yaml.Node, text string) int {
	if n == nil || text == "" {
		return 0
	}
	if n.Kind == yaml.ScalarNode && n.Value == text {
		return n.Line
	}
	for _, child := range n.Content {
		if line := lineOf(child, text); line > 0 {
			return line
		}
	}
	return 0
}
