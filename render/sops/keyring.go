package sops

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/godwit-gitops/godwit/render/project"
)

// Grant gives keys to folders, as operators write it.
type Grant struct {
	// Paths are the folders, relative to the source; "." is all of it.
	Paths []string
	// Keys open what is in them. Empty means that they are not at hand.
	Keys Keys
}

// Keyring says which keys open which files. It never changes. A nil one has none.
type Keyring struct {
	grants   map[string]*grant // by folder
	projects *project.Set
}

// grant are keys for some folders.
type grant struct {
	keys    Keys
	folders string // for messages
}

// Compile makes a Keyring; nil if nothing is granted. Keys of a folder are for the files of that folder's project alone, so that
// those of one team open nothing for another one whose folder lies within. The error names the field, as in
// decryption[1].paths[0].
func Compile(grants []Grant, projects *project.Set) (*Keyring, error) {
	if len(grants) == 0 {
		return nil, nil
	}
	r := &Keyring{map[string]*grant{}, projects}
	var failures []error
	for i, g := range grants {
		fail := func(field, format string, args ...any) {
			failures = append(failures, fmt.Errorf("decryption[%d].%s: %s", i, field, fmt.Sprintf(format, args...)))
		}
		if len(g.Paths) == 0 {
			fail("paths", "is missing; name folders of the source, such as teams/shop, or . for all of it")
		}
		given := &grant{keys: g.Keys, folders: strings.Join(g.Paths, ", ")}
		for j, folder := range g.Paths {
			field := fmt.Sprintf("paths[%d]", j)
			switch {
			case !fs.ValidPath(folder):
				fail(field, "%q is no folder of the source; write it like teams/shop, without a slash at either end", folder)
			case strings.ContainsAny(folder, "*?["):
				fail(field, "%q is a pattern, and folders are named in full", folder)
			case r.grants[folder] != nil:
				fail(field, "%s has keys already; put all of them into one entry", folder)
			case projects != nil && projects.Of(folder).Name() == "":
				fail(field, "no project holds %s, so nothing in it is used; name the folder of a project, or one in it", folder)
			default:
				r.grants[folder] = given
			}
		}
	}
	if err := errors.Join(failures...); err != nil {
		return nil, err
	}
	return r, nil
}

// realm is where one set of keys counts: neither files nor kustomizations of two realms share anything.
type realm struct {
	grant   *grant // nil: there are no keys
	project *project.Project
}

// of is the realm of a file or folder: the longest folder with keys that holds it, within its project.
func (r *Keyring) of(name string) realm {
	if r == nil {
		return realm{}
	}
	in := realm{project: r.projects.Of(name)}
	for dir := path.Clean(name); ; dir = path.Dir(dir) {
		if g := r.grants[dir]; g != nil {
			if r.projects.Of(dir) == in.project {
				in.grant = g
			}
			return in
		}
		if dir == "." || dir == "/" {
			return in
		}
	}
}

// String names it in messages.
func (r realm) String() string {
	whose := "no key"
	if r.grant != nil {
		whose = "the keys for " + r.grant.folders
	}
	if name := r.project.Name(); name != "" {
		whose += " of project " + name
	}
	return whose
}
