package manifest

import (
	"strconv"
	"sync"

	"go.yaml.in/yaml/v3"
)

// text is the text of one document. It is taken apart into nodes only when a line is asked for,
// which for most documents is never.
type text struct {
	data  []byte
	first int // the line of the file on which data begins, from 1
	// repeated is false if no key stands twice in one mapping.
	repeated bool

	once sync.Once
	root *yaml.Node // nil if the library that knows lines cannot read what the one for values can
}

func (t *text) node() *yaml.Node {
	t.once.Do(func() {
		defer func() { _ = recover() }() // lines are a courtesy; the values have been read already
		var doc yaml.Node
		if yaml.Unmarshal(t.data, &doc) == nil && len(doc.Content) == 1 {
			t.root = doc.Content[0]
		}
	})
	return t.root
}

// find follows the paths one after the other and returns the nearest node, the line of its key or
// else its own, and whether the whole path is there.
func (t *text) find(paths ...[]string) (n *yaml.Node, line int, all bool) {
	n = t.node()
	if n == nil {
		return nil, 0, false
	}
	line = t.first + n.Line - 1
	for _, path := range paths {
		for _, elem := range path {
			key, value := child(n, elem, 0)
			if value == nil {
				return n, line, false
			}
			n, line = value, t.first+key.Line-1
		}
	}
	return n, line, true
}

func (t *text) line(paths ...[]string) int {
	_, line, _ := t.find(paths...)
	return line
}

// plain is the text of the scalar at the paths as it was written; false if there is none, or if it is quoted.
func (t *text) plain(paths ...[]string) (string, bool) {
	n, _, all := t.find(paths...)
	if !all || n.Kind != yaml.ScalarNode || n.Style != 0 {
		return "", false
	}
	return n.Value, true
}

// maxMerges bounds how far merge keys are followed: they may lead in circles.
const maxMerges = 20

// child is the value of one key or index and the node whose line names it. The last of equal keys
// counts, as it does for values; merged ("<<") keys come after the mapping's own.
func child(n *yaml.Node, elem string, merges int) (key, value *yaml.Node) {
	n = resolved(n)
	switch n.Kind {
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(elem); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], resolved(n.Content[i])
		}
	case yaml.MappingNode:
		for i := len(n.Content) - 2; i >= 0; i -= 2 {
			if n.Content[i].Value == elem {
				return n.Content[i], resolved(n.Content[i+1])
			}
		}
		for i := len(n.Content) - 2; i >= 0 && merges < maxMerges; i -= 2 {
			if !isMerge(n.Content[i]) {
				continue
			}
			sources := []*yaml.Node{n.Content[i+1]}
			if from := resolved(n.Content[i+1]); from.Kind == yaml.SequenceNode {
				sources = from.Content
			}
			for _, from := range sources {
				if key, value := child(from, elem, merges+1); value != nil && resolved(from).Kind == yaml.MappingNode {
					return key, value
				}
			}
		}
	}
	return nil, nil
}

func isMerge(key *yaml.Node) bool { return key.Value == "<<" && key.Style == 0 }

func resolved(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// repeats returns the paths of keys that stand twice in one mapping, in order of the text.
func (t *text) repeats() (found []repeat) {
	root := t.node()
	if root == nil {
		return nil
	}
	var walk func(n *yaml.Node, path []string)
	walk = func(n *yaml.Node, path []string) {
		switch n.Kind {
		case yaml.SequenceNode:
			for i, e := range n.Content {
				walk(e, append(path, strconv.Itoa(i)))
			}
		case yaml.MappingNode:
			first := make(map[string]int, len(n.Content)/2)
			for i := 0; i+1 < len(n.Content); i += 2 {
				key := n.Content[i]
				here := append(path[:len(path):len(path)], key.Value)
				if line, ok := first[key.Value]; !ok {
					first[key.Value] = t.first + key.Line - 1
				} else if !isMerge(key) {
					found = append(found, repeat{here, t.first + key.Line - 1, line})
				}
				walk(n.Content[i+1], here)
			}
		}
	}
	walk(root, nil)
	return found
}

// repeat is a key that stands twice in its mapping.
type repeat struct {
	path        []string
	line, first int
}
