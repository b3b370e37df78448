package kustomize

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/godwit-gitops/godwit/api"
)

// Error is a reason not to build a kustomization.
type Error struct {
	File string // relative to the source
	Line int    // 0 if unknown
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Position is where the trouble is.
func (e *Error) Position() (file string, line int) { return e.File, e.Line }

// schema guards the OpenAPI schema of kustomize, which is global to the process and stays as a build
// left it. Kept as it is at the start, it makes a build ten times faster than one that loads it anew.
var schema sync.Mutex

// resetSchema forgets the schema unless it is the one that kustomize begins with.
func resetSchema(changed bool) {
	if changed || openapi.GetSchemaVersion() != initialSchema {
		openapi.ResetOpenAPI()
	}
}

var initialSchema = openapi.GetSchemaVersion()

// Build builds the kustomization in the folder root of fsys. The objects come in the order of
// kustomize; inputs are the folders whose content they depend on. Build may be called concurrently, and then
// waits its turn.
func Build(fsys fs.FS, root string) (objects []api.Object, inputs []string, err error) {
	root = path.Clean(root)
	s := survey{fsys: fsys, sizes: map[string]int{}}
	file := s.root(root)
	if err := s.err(); err != nil {
		return nil, nil, err
	}
	objects, err = run(fsys, root, s.schema)
	if err != nil {
		return nil, nil, &Error{File: file, Err: err}
	}
	return objects, s.inputs(), nil
}

// run runs kustomize. ChangesSchema tells whether the kustomization chooses a schema.
func run(fsys fs.FS, root string, changesSchema bool) (objects []api.Object, err error) {
	schema.Lock()
	defer schema.Unlock()
	resetSchema(false)
	defer func() { resetSchema(changesSchema) }()
	left := maxRead
	t := tree{fsys, map[string]bool{}, &left}
	told := func(message string) string { return discreet(hide(fsys, t.seen, cut(message))) }
	defer func() {
		if p := recover(); p != nil {
			changesSchema = true // who knows
			err = fmt.Errorf("kustomize broke down: %s", told(fmt.Sprint(p)))
		}
	}()

	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(t, "/"+root)
	switch {
	case left < 0:
		return nil, errTooMuch
	case err != nil:
		return nil, errors.New(told(err.Error()))
	}
	for _, r := range built.Resources() {
		o, err := content(&r.RNode)
		if err != nil {
			return nil, fmt.Errorf("%s: %s", r.CurId(), told(err.Error()))
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// content is what an object holds, whole numbers as int64. Over JSON that takes several times as long, so only what is
// unusual in manifests goes there.
func content(r *yaml.RNode) (map[string]any, error) {
	if v, ok := direct(r.YNode()); ok {
		if o, ok := v.(map[string]any); ok {
			return o, nil
		}
	}
	return throughJSON(r)
}

func throughJSON(r *yaml.RNode) (o map[string]any, err error) {
	text, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return o, json.Unmarshal(text, &o)
}

// direct is what a node holds, as if it had been JSON; false if that takes more than a look: fractions, dates,
// folded texts, aliases, keys that are no texts and the like.
func direct(n *yaml.Node) (any, bool) {
	if n == nil {
		return nil, false
	}
	switch tag := n.ShortTag(); {
	case n.Kind == yaml.MappingNode && tag == yaml.NodeTagMap:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, keyOK := direct(n.Content[i])
			value, ok := direct(n.Content[i+1])
			name, isText := key.(string)
			if _, twice := m[name]; !keyOK || !ok || !isText || twice {
				return nil, false
			}
			m[name] = value
		}
		return m, true
	case n.Kind == yaml.SequenceNode && tag == yaml.NodeTagSeq:
		list := make([]any, len(n.Content))
		for i, e := range n.Content {
			value, ok := direct(e)
			if !ok {
				return nil, false
			}
			list[i] = value
		}
		return list, true
	case n.Kind != yaml.ScalarNode:
		return nil, false
	case tag == yaml.NodeTagString:
		// Written out and read again, as kustomize does, a folded text may get more lines.
		return n.Value, n.Style&yaml.FoldedStyle == 0 && utf8.ValidString(n.Value)
	case tag == yaml.NodeTagBool && (n.Value == "true" || n.Value == "false"):
		return n.Value == "true", true
	case tag == yaml.NodeTagNull && n.Value == "null":
		return nil, true
	case tag == yaml.NodeTagInt && decimal.MatchString(n.Value):
		number, err := strconv.ParseInt(n.Value, 10, 64)
		return number, err == nil
	}
	return nil, false
}

var decimal = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

var (
	configText = regexp.MustCompile("(?s) with config: `.*`")
	pairsText  = regexp.MustCompile(`(?s)loading KV pairs: .*`)
	nodeText   = regexp.MustCompile(`(?s):?\s*node contents:.*`)
	indexText  = regexp.MustCompile(`(?s)(is out of bounds) for value .*`)
	patchText  = regexp.MustCompile(`\[patch: "(?:[^"\\]|\\.)*"\]`)
)

// cut is a message of kustomize without the values that it works on, which end those messages that have them.
func cut(message string) string {
	return indexText.ReplaceAllString(nodeText.ReplaceAllString(message, ""), "$1")
}

// discreet is a message of kustomize on one line, without the texts of patches and generators.
func discreet(message string) string {
	message = configText.ReplaceAllString(message, "")
	message = pairsText.ReplaceAllString(message, "a source of a generator has lines that are not key=value")
	message = patchText.ReplaceAllString(message, "an inline patch")
	return strings.Join(strings.Fields(message), " ")
}
