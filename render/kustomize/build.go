package kustomize

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/openapi"

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
	defer func() {
		if p := recover(); p != nil {
			changesSchema = true // who knows
			err = fmt.Errorf("kustomize broke down: %s", discreet(fmt.Sprint(p)))
		}
	}()

	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(tree{fsys}, "/"+root)
	if err != nil {
		return nil, fmt.Errorf("%s", discreet(err.Error()))
	}
	for _, r := range built.Resources() {
		text, err := r.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.CurId(), err)
		}
		var o map[string]any
		if err := json.Unmarshal(text, &o); err != nil { // whole numbers become int64
			return nil, fmt.Errorf("%s: %w", r.CurId(), err)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

var (
	configText = regexp.MustCompile("(?s) with config: `.*`")
	pairsText  = regexp.MustCompile(`(?s)loading KV pairs: .*`)
	patchText  = regexp.MustCompile(`\[patch: "(?:[^"\\]|\\.)*"\]`)
)

// discreet is a message of kustomize on one line, without the texts of patches and generators.
func discreet(message string) string {
	message = configText.ReplaceAllString(message, "")
	message = pairsText.ReplaceAllString(message, "a source of a generator has lines that are not key=value")
	message = patchText.ReplaceAllString(message, "an inline patch")
	return strings.Join(strings.Fields(message), " ")
}
