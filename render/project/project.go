package project

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/godwit-gitops/godwit/api"
)

// Limits are a project as operators write it.
type Limits struct {
	Name string
	// Paths are the folders that it holds, relative to the source; "." is all of it.
	Paths []string
	// Namespaces that its objects may be in, as names or with * for any run of characters; empty means none.
	Namespaces []string
	// Kinds in namespaces that it may have: "Deployment.apps", "ConfigMap" of the core group, "*.apps", or "*" for all.
	// Empty means all.
	Kinds []string
	// ClusterScoped are the kinds outside of namespaces that it may have, written like Kinds; empty means none. Of
	// Namespaces it may then have those of its own that Namespaces names.
	ClusterScoped []string
	// Members that its objects may go to, as names or with *; empty means all.
	Members []string
	// MemberSelector selects them by their labels: "env=prod,team in (a, b)". Both hold; empty means all.
	MemberSelector string
	// ServiceAccount is the one of each member, as namespace/name, that the project's objects are written as; empty means
	// godwit's own.
	ServiceAccount string
}

// Project is what one project may have. Nil allows everything.
type Project struct {
	limits   Limits
	selector labels.Selector // nil selects everything
	nobody   bool            // it is for files in no project
}

// Set is all projects. Nil has none.
type Set struct {
	folders map[string]*Project
	all     []*Project
}

// nobody is whose the files are that no project holds.
var nobody = &Project{nobody: true}

// Compile makes a Set of projects; nil if there are none. The error names the field, as in projects[1].paths[0].
func Compile(projects []Limits) (*Set, error) {
	if len(projects) == 0 {
		return nil, nil
	}
	s := &Set{folders: map[string]*Project{}}
	names := map[string]bool{}
	var failures []error
	for i, l := range projects {
		fail := func(field, format string, args ...any) {
			failures = append(failures, fmt.Errorf("projects[%d].%s: %s", i, field, fmt.Sprintf(format, args...)))
		}
		if problems := validation.IsDNS1123Label(l.Name); len(problems) > 0 {
			fail("name", "%q is no name: %s", l.Name, problems[0])
		} else if names[l.Name] {
			fail("name", "%s is there twice; give each project one entry with all its paths", l.Name)
		}
		names[l.Name] = true
		p := &Project{limits: l}
		if len(l.Paths) == 0 {
			fail("paths", "is missing; name folders of the source, such as teams/%s, or . for all of it", l.Name)
		}
		for j, folder := range l.Paths {
			switch other := s.folders[folder]; {
			case !fs.ValidPath(folder):
				fail(fmt.Sprintf("paths[%d]", j), "%q is no folder of the source; write it like teams/%s, without a slash at either end", folder, l.Name)
			case strings.ContainsAny(folder, "*?["):
				fail(fmt.Sprintf("paths[%d]", j), "%q is a pattern, and folders are named in full", folder)
			case other != nil:
				fail(fmt.Sprintf("paths[%d]", j), "%s is of project %s already", folder, other.limits.Name)
			default:
				s.folders[folder] = p
			}
		}
		if len(l.Namespaces) == 0 && len(l.ClusterScoped) == 0 {
			fail("namespaces", "is missing, so that the project may have nothing; write [\"*\"] if it may use all of them")
		}
		for _, list := range []struct {
			field string
			words []string
			check func(string) error
		}{
			{"namespaces", l.Namespaces, checkPattern}, {"members", l.Members, checkPattern},
			{"kinds", l.Kinds, checkKind}, {"clusterScoped", l.ClusterScoped, checkKind},
		} {
			for j, word := range list.words {
				if err := list.check(word); err != nil {
					fail(fmt.Sprintf("%s[%d]", list.field, j), "%q %v", word, err)
				}
			}
		}
		if l.MemberSelector != "" {
			var err error
			if p.selector, err = labels.Parse(l.MemberSelector); err != nil {
				fail("memberSelector", "%v", err)
			}
		}
		if l.ServiceAccount != "" {
			if _, _, err := ParseAccount(l.ServiceAccount); err != nil {
				fail("serviceAccount", "%v", err)
			}
		}
		s.all = append(s.all, p)
	}
	if err := errors.Join(failures...); err != nil {
		return nil, err
	}
	return s, nil
}

func checkPattern(word string) error {
	if rest := strings.ReplaceAll(word, "*", "x"); len(validation.IsDNS1123Subdomain(rest)) > 0 {
		return errors.New("is neither a name nor one with * for any run of characters")
	}
	return nil
}

func checkKind(word string) error {
	kind, group, grouped := strings.Cut(word, ".")
	switch {
	case word == "*":
		return nil
	case kind == "", grouped && len(validation.IsDNS1123Subdomain(group)) > 0, strings.ContainsAny(kind, "/ "), kind != "*" && strings.Contains(kind, "*"):
		return errors.New("is no kind; write it like ConfigMap, Deployment.apps, *.apps or *")
	}
	return nil
}

// All are the projects, in the order of the configuration.
func (s *Set) All() []*Project {
	if s == nil {
		return nil
	}
	return s.all
}

// ServiceAccounts are those that projects name, as namespace/name, sorted, each once.
func (s *Set) ServiceAccounts() []string {
	var all []string
	for _, p := range s.All() {
		if a := p.ServiceAccount(); a != "" {
			all = append(all, a)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Of is the project of a file or folder, given relative to the source. It is nil where there are no projects, and
// allows nothing where none of them has the file.
func (s *Set) Of(file string) *Project {
	if s == nil {
		return nil
	}
	_, p := s.folder(file)
	return p
}

// folder is the longest folder of a project that holds the file.
func (s *Set) folder(file string) (string, *Project) {
	for dir := path.Clean(file); ; dir = path.Dir(dir) {
		if p := s.folders[dir]; p != nil {
			return dir, p
		}
		if dir == "." || dir == "/" {
			return dir, nobody
		}
	}
}

// Holds tells whether what is in the folder dir may take charge of the folder other, so that it is not read on its own:
// within a project, of a folder in no project, and of one below the own project's.
func (s *Set) Holds(dir, other string) bool {
	if s == nil {
		return true
	}
	own, p := s.folder(dir)
	_, q := s.folder(other)
	return p == q || q == nobody || p != nobody && (own == "." || strings.HasPrefix(path.Clean(other)+"/", own+"/"))
}

// Name is that of the project, empty where there are no projects and for files in none.
func (p *Project) Name() string {
	if p == nil {
		return ""
	}
	return p.limits.Name
}

// ServiceAccount is who the project's objects are written as on members, as namespace/name; empty means godwit's own account.
func (p *Project) ServiceAccount() string {
	if p == nil {
		return ""
	}
	return p.limits.ServiceAccount
}

// Refusal is why an object may not be where it stands.
type Refusal struct {
	// Code is that of the finding, and Field what it is about; nil means the object as a whole.
	Code    string
	Field   []string
	Message string
}

// Refuses says why the project may not have an object; nil if it may. An object with a namespace in its ID is in one, others
// are cluster-scoped.
func (p *Project) Refuses(id api.ID) *Refusal {
	switch {
	case p == nil:
		return nil
	case p.nobody:
		return &Refusal{"project-none", nil, "no project holds this folder, so nothing in it is used; put the file into the folder of one, or give the folder to one under projects in the configuration"}
	case id.Namespace == "" && !allowsKind(p.limits.ClusterScoped, id):
		return &Refusal{"project-cluster-scoped", []string{"kind"}, fmt.Sprintf("project %s may not have the cluster-scoped kind %s; it has %s", p.limits.Name, kindName(id), listed(p.limits.ClusterScoped, "none"))}
	case id.Namespace == "" && id.Group == "" && id.Kind == "Namespace" && !allows(p.limits.Namespaces, id.Name):
		return &Refusal{"project-namespace", []string{"metadata", "name"}, p.foreign(id.Name)}
	case id.Namespace == "":
		return nil
	case !allows(p.limits.Namespaces, id.Namespace):
		return &Refusal{"project-namespace", []string{"metadata", "namespace"}, p.foreign(id.Namespace)}
	case len(p.limits.Kinds) > 0 && !allowsKind(p.limits.Kinds, id):
		return &Refusal{"project-kind", []string{"kind"}, fmt.Sprintf("project %s may not have the kind %s; it has %s", p.limits.Name, kindName(id), listed(p.limits.Kinds, ""))}
	}
	return nil
}

func (p *Project) foreign(namespace string) string {
	return fmt.Sprintf("project %s may not use namespace %s; it has %s", p.limits.Name, namespace, listed(p.limits.Namespaces, "none"))
}

// Reaches tells whether a policy that p holds concerns objects of another project: those in a namespace concern their
// own alone. Where there are no projects, both are nil.
func (p *Project) Reaches(namespace string, other *Project) bool {
	return namespace == "" || p == other
}

// AllowsMember tells whether objects of the project may go to the member of that name and those labels.
func (p *Project) AllowsMember(name string, of map[string]string) bool {
	switch {
	case p == nil:
		return true
	case p.nobody:
		return false
	}
	return (len(p.limits.Members) == 0 || allows(p.limits.Members, name)) && (p.selector == nil || p.selector.Matches(labels.Set(of)))
}

// MembersText says which members it has.
func (p *Project) MembersText() string {
	var words []string
	if len(p.limits.Members) > 0 {
		words = append(words, listed(p.limits.Members, ""))
	}
	if p.selector != nil {
		words = append(words, "those with "+p.limits.MemberSelector)
	}
	return strings.Join(words, ", of them ")
}

func kindName(id api.ID) string {
	if id.Group == "" {
		return id.Kind
	}
	return id.Kind + "." + id.Group
}

func allowsKind(list []string, id api.ID) bool {
	return slices.ContainsFunc(list, func(word string) bool {
		kind, group, _ := strings.Cut(word, ".")
		return word == "*" || group == id.Group && (kind == "*" || kind == id.Kind)
	})
}

func allows(list []string, name string) bool {
	return slices.ContainsFunc(list, func(pattern string) bool { return fits(pattern, name) })
}

// fits tells whether a name is as the pattern says, in which * is any run of characters.
func fits(pattern, name string) bool {
	first, rest, more := strings.Cut(pattern, "*")
	name, ok := strings.CutPrefix(name, first)
	if !ok || !more {
		return ok && name == ""
	}
	for parts := strings.Split(rest, "*"); ; parts = parts[1:] {
		if len(parts) == 1 {
			return strings.HasSuffix(name, parts[0])
		}
		i := strings.Index(name, parts[0])
		if i < 0 {
			return false
		}
		name = name[i+len(parts[0]):]
	}
}

func listed(words []string, none string) string {
	const most = 8
	switch n := len(words); {
	case n == 0:
		return none
	case n > most:
		return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), n-most)
	}
	return strings.Join(words, ", ")
}

// ParseAccount takes "namespace/name" of a service account apart.
func ParseAccount(text string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", "", fmt.Errorf("%q is no service account; write namespace/name", text)
	}
	return namespace, name, nil
}
