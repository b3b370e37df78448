package record

import (
	"strings"

	"github.com/godwit-gitops/godwit/api"
)

// clusterScope stands for the namespace of what has none. No namespace can have that name.
const clusterScope = "_cluster"

// MetaPath is the file of Meta.
const MetaPath = "state.yaml"

const (
	clustersDir = "clusters"
	bindingsDir = "bindings"
	worksDir    = "works"
	retiredDir  = "retired"
	suffix      = ".yaml"
)

// BindingKey names a binding; Namespace is empty for a ClusterResourceBinding.
type BindingKey struct {
	Namespace string
	Name      string
}

// String is "namespace/name", or "name" for a ClusterResourceBinding.
func (k BindingKey) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Compare orders by namespace, then name.
func (k BindingKey) Compare(other BindingKey) int {
	if c := strings.Compare(k.Namespace, other.Namespace); c != 0 {
		return c
	}
	return strings.Compare(k.Name, other.Name)
}

// BindingOf is the key of the binding of a template: the name as Karmada makes it (lower case
// template name with ":" as ".", "-", lower case kind), in the template's namespace.
func BindingOf(template api.ID) BindingKey {
	name := strings.ToLower(strings.ReplaceAll(template.Name, ":", ".") + "-" + template.Kind)
	return BindingKey{Namespace: template.Namespace, Name: name}
}

// Path is the binding's file.
func (k BindingKey) Path() string {
	return bindingsDir + "/" + scope(k.Namespace) + "/" + escape(k.Name) + suffix
}

// ClusterPath is the file of a member.
func ClusterPath(member string) string {
	return clustersDir + "/" + escape(member) + suffix
}

// WorkPath is the file of an object as applied to member. The version is not part of it: two
// versions of one object are one object.
func WorkPath(member string, id api.ID) string {
	return objectPath(worksDir, member, id)
}

// RetiredPath is the file that says that the object is to be deleted on member.
func RetiredPath(member string, id api.ID) string {
	return objectPath(retiredDir, member, id)
}

// retiredOf is the retired path of a work's path, and the other way round.
func retiredOf(workPath string) string {
	return retiredDir + strings.TrimPrefix(workPath, worksDir)
}

func objectPath(dir, member string, id api.ID) string {
	var b strings.Builder
	b.Grow(len(dir) + len(member) + len(id.Namespace) + len(id.Kind) + len(id.Group) + len(id.Name) + 16)
	b.WriteString(dir)
	b.WriteByte('/')
	escapeTo(&b, member)
	b.WriteByte('/')
	if id.Namespace == "" {
		b.WriteString(clusterScope)
	} else {
		escapeTo(&b, id.Namespace)
	}
	b.WriteByte('/')
	escapeTo(&b, strings.ToLower(id.Kind))
	if id.Group != "" {
		b.WriteByte('.')
		escapeTo(&b, id.Group)
	}
	b.WriteByte('_')
	escapeTo(&b, id.Name)
	b.WriteString(suffix)
	return b.String()
}

func scope(namespace string) string {
	if namespace == "" {
		return clusterScope
	}
	return escape(namespace)
}

// MemberOf is the member a work's or retired work's path belongs to, empty for any other path.
func MemberOf(path string) string {
	dir, rest, ok := strings.Cut(path, "/")
	if !ok || dir != worksDir && dir != retiredDir {
		return ""
	}
	member, _, ok := strings.Cut(rest, "/")
	if !ok {
		return ""
	}
	return unescape(member)
}

// AgentPrefix is what the branches begin with on which the agents of members report, beside a state branch: one rule
// of the forge can let agents push to them and to nothing else. A branch below the state branch itself is none that
// Git could have.
func AgentPrefix(stateBranch string) string { return stateBranch + "-agents/" }

// AgentBranch is the branch of a member's agent, below AgentPrefix. Dots are escaped along: Git has a meaning for some.
func AgentBranch(member string) string { return strings.ReplaceAll(escape(member), ".", "%2e") }

// BindingAt is the key of the binding whose file is at the path; ok is false for any other path.
func BindingAt(path string) (key BindingKey, ok bool) {
	dir, rest, _ := strings.Cut(path, "/")
	namespace, file, found := strings.Cut(rest, "/")
	name, named := strings.CutSuffix(file, suffix)
	if dir != bindingsDir || !found || !named {
		return key, false
	}
	if namespace != clusterScope {
		key.Namespace = unescape(namespace)
	}
	key.Name = unescape(name)
	return key, key.Path() == path
}

// ClusterAt is the member whose file is at the path; ok is false for any other path.
func ClusterAt(path string) (member string, ok bool) {
	dir, file, _ := strings.Cut(path, "/")
	name, named := strings.CutSuffix(file, suffix)
	member = unescape(name)
	return member, dir == clustersDir && named && ClusterPath(member) == path
}

// Place is what the path of a work or retired work says, without the file.
type Place struct {
	Member string
	// Retired: the path is that of a retired work.
	Retired bool
	// Kind is in lower case.
	Kind, Namespace, Name string
	// Binding is the one that placed it, if one did.
	Binding BindingKey
}

// PlaceOf reads the path of a work or retired work; ok is false for any other path.
func PlaceOf(path string) (p Place, ok bool) {
	if p.Member = MemberOf(path); p.Member == "" {
		return p, false
	}
	dir, rest, _ := strings.Cut(path, "/")
	p.Retired = dir == retiredDir
	_, rest, _ = strings.Cut(rest, "/")
	namespace, file, _ := strings.Cut(rest, "/")
	file, named := strings.CutSuffix(file, suffix)
	kind, name, found := strings.Cut(file, "_")
	if !named || !found || name == "" || strings.Contains(name, "/") {
		return p, false
	}
	kind, _, _ = strings.Cut(kind, ".")
	p.Kind, p.Name = unescape(kind), unescape(name)
	if namespace != clusterScope {
		p.Namespace = unescape(namespace)
	}
	p.Binding = BindingOf(api.ID{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name})
	return p, true
}

const hex = "0123456789abcdef"

// plain holds for the bytes that stand for themselves in a path. Upper case is escaped so that no
// two paths differ in case alone, "_" because it parts kind from name.
func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.'
}

func escape(s string) string {
	var b strings.Builder
	escapeTo(&b, s)
	return b.String()
}

// escapeTo writes s with every byte that is not plain as %xx; a leading "." too, so that no file is
// hidden and no name is "." or "..".
func escapeTo(b *strings.Builder, s string) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if plain(c) && !(c == '.' && i == 0) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
}

// unescape undoes escape; what escape never writes stands for itself.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := strings.IndexByte(hex, s[i+1]), strings.IndexByte(hex, s[i+2])
			if hi >= 0 && lo >= 0 {
				b.WriteByte(byte(hi<<4 | lo))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
