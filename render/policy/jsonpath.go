package policy

import (
	"errors"
	"fmt"

	"k8s.io/client-go/util/jsonpath"
)

const (
	// maxJSONPath is how long a JSONPath may be. Reading one takes a stack as deep as it is long.
	maxJSONPath = 4096
	// maxUnions is how many ways a JSONPath may take at once.
	maxUnions = 64
)

// errJSONPath: what it finds is more than the object has, by a power of how often it asks.
var errJSONPath = errors.New("goes through the same things again and again")

// JSONPath reads a JSONPath that a user wrote. One that would take exponentially long is an error: with .. more than once,
// or with so many names in brackets that their combinations are more than a few.
func JSONPath(name, text string) (*jsonpath.JSONPath, error) {
	if len(text) > maxJSONPath {
		return nil, fmt.Errorf("it has %d characters, more than %d", len(text), maxJSONPath)
	}
	parsed, err := jsonpath.Parse(name, text)
	if err != nil {
		return nil, err
	}
	c := pathCost{unions: 1}
	if c.add(parsed.Root); c.recursions > 1 || c.unions > maxUnions {
		return nil, errJSONPath
	}
	path := jsonpath.New(name)
	return path, path.Parse(text)
}

// pathCost is what multiplies the work of a path.
type pathCost struct{ recursions, unions int }

func (c *pathCost) add(n jsonpath.Node) {
	switch n := n.(type) {
	case *jsonpath.ListNode:
		for _, n := range n.Nodes {
			c.add(n)
		}
	case *jsonpath.FilterNode:
		c.add(n.Left)
		c.add(n.Right)
	case *jsonpath.UnionNode:
		c.unions = min(c.unions*max(1, len(n.Nodes)), maxUnions+1)
		for _, n := range n.Nodes {
			c.add(n)
		}
	case *jsonpath.RecursiveNode:
		c.recursions++
	}
}
