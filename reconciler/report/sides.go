package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Sides is an object that changes, as files for a program that shows diffs.
type Sides struct {
	// Name is MEMBER.GROUP.VERSION.KIND.NAMESPACE.NAME, and good as the name of a file; no other of a plan has it.
	Name string
	// Before and After are empty where there is no such object.
	Before, After string
}

// Sides are the works that change; what is the same on several members is there once, and its name begins with all of
// them, as m1+m2, or how many there are.
func (p *Plan) Sides() []Sides {
	var all []Sides
	taken := map[string]bool{}
	for _, g := range p.changes() {
		name := fileName(g.members, g.Resource)
		for n := 2; taken[strings.ToLower(name)]; n++ { // file systems may not tell cases apart
			name = fmt.Sprintf("%s~%d", fileName(g.members, g.Resource), n)
		}
		taken[strings.ToLower(name)] = true
		all = append(all, Sides{Name: name, Before: text(g.before), After: text(g.after)})
	}
	return all
}

const (
	// longestName leaves a file system's 255 bytes room for what makes a name another one.
	longestName = 200
	// namedMembers is how many members a file's name has.
	namedMembers = 3
)

func fileName(members []string, r Resource) string {
	on := strings.Join(members, "+")
	if len(members) > namedMembers {
		on = fmt.Sprintf("%s+%d", members[0], len(members)-1)
	}
	parts := []string{on}
	if group, version, ok := strings.Cut(r.APIVersion, "/"); ok {
		parts = append(parts, group, version)
	} else {
		parts = append(parts, r.APIVersion)
	}
	parts = append(parts, r.Kind)
	if r.Namespace != "" {
		parts = append(parts, r.Namespace)
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-+_", r) {
			return r
		}
		return '_'
	}, strings.Join(append(parts, r.Name), "."))
	if len(name) > longestName {
		sum := sha256.Sum256([]byte(name))
		name = name[:longestName] + "-" + hex.EncodeToString(sum[:4])
	}
	return name
}
