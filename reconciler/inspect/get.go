package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
)

// Query says what to get.
type Query struct {
	// Kind is a kind, a plural, a short name, or any of them with ".group".
	Kind string
	// Name is empty for all.
	Name string
	// Namespace is empty for all; cluster-scoped kinds ignore it.
	Namespace string
	// Selector is a label selector, empty for all.
	Selector string
	// Objects asks for whole objects instead of a table.
	Objects bool
	// Full asks for a table whose rows have their whole objects.
	Full bool
	// Timeout bounds each member's answer; 0 means 10 s.
	Timeout time.Duration
}

// Answer is what one member said.
type Answer struct {
	Member string
	// Table has the rows; nil with Objects or an error.
	Table *metav1.Table
	// Items are the objects; nil without Objects.
	Items []api.Object
	// Kind is what was meant by the query's, without a name; Namespaced tells its scope.
	Kind       api.ID
	Namespaced bool
	Err        error
}

// Get asks all members at once and returns their answers sorted by name.
func Get(ctx context.Context, members map[string]*rest.Config, q Query) []Answer {
	if q.Timeout == 0 {
		q.Timeout = 10 * time.Second
	}
	answers := make([]Answer, 0, len(members))
	var mu sync.Mutex
	var group sync.WaitGroup
	for name, config := range members {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, q.Timeout)
			defer cancel()
			a := ask(ctx, config, q)
			a.Member = name
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, a)
		})
	}
	group.Wait()
	slices.SortFunc(answers, func(a, b Answer) int {
		if a.Member < b.Member {
			return -1
		}
		return 1
	})
	return answers
}

// The API server makes a table, or, where it cannot, gives the objects as they are.
const (
	acceptTable   = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	acceptObjects = "application/json"
)

func ask(ctx context.Context, config *rest.Config, q Query) Answer {
	config = rest.CopyConfig(config)
	config.Timeout = q.Timeout
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return Answer{Err: err}
	}
	mapping, err := resolve(client, q.Kind)
	if err != nil {
		return Answer{Err: err}
	}
	gvk := mapping.GroupVersionKind
	a := Answer{Kind: api.ID{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}, Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}
	request := client.RESTClient().Get().AbsPath(pathOf(mapping.Resource, a.Namespaced, q)...)
	if q.Selector != "" {
		request = request.Param("labelSelector", q.Selector)
	}
	accept := acceptTable
	if q.Objects {
		accept = acceptObjects
	} else {
		include := metav1.IncludeMetadata
		if q.Full {
			include = metav1.IncludeObject
		}
		request = request.Param("includeObject", string(include))
	}
	body, err := request.SetHeader("Accept", accept).Do(ctx).Raw()
	if err == nil {
		err = a.read(body)
	}
	a.Err = err
	return a
}

func pathOf(r schema.GroupVersionResource, namespaced bool, q Query) []string {
	path := []string{"/apis", r.Group, r.Version}
	if r.Group == "" {
		path = []string{"/api", r.Version}
	}
	if namespaced && q.Namespace != "" {
		path = append(path, "namespaces", q.Namespace)
	}
	path = append(path, r.Resource)
	if q.Name != "" {
		path = append(path, q.Name)
	}
	return path
}

// read takes a table, a list or one object.
func (a *Answer) read(body []byte) error {
	o, err := canonical.Parse(body)
	if err != nil {
		return err
	}
	switch items, isList := o["items"].([]any); {
	case o["kind"] == "Table":
		a.Table = &metav1.Table{}
		return json.Unmarshal(body, a.Table)
	case isList:
		kind, _ := o["kind"].(string)
		for _, item := range items {
			if m, ok := item.(map[string]any); ok {
				// Items of a typed list come without their type.
				if m["kind"] == nil {
					m["apiVersion"], m["kind"] = o["apiVersion"], strings.TrimSuffix(kind, "List")
				}
				a.Items = append(a.Items, m)
			}
		}
	default:
		a.Items = []api.Object{o}
	}
	return nil
}

// resolve finds the resource that the user means.
func resolve(client discovery.DiscoveryInterface, kind string) (*meta.RESTMapping, error) {
	// A broken group of the member takes nothing from the others, so what came is used.
	groups, err := restmapper.GetAPIGroupResources(client)
	if len(groups) == 0 {
		return nil, err
	}
	mapper := restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(groups), memory.NewMemCacheClient(client), nil)
	full, gr := schema.ParseResourceArg(kind)
	var gvk schema.GroupVersionKind
	if full != nil {
		gvk, _ = mapper.KindFor(*full)
	}
	if gvk.Empty() {
		gvk, err = mapper.KindFor(gr.WithVersion(""))
	}
	if gvk.Empty() {
		_, gk := schema.ParseKindArg(kind)
		if mapping, kindErr := mapper.RESTMapping(gk); kindErr == nil {
			return mapping, nil
		}
		return nil, fmt.Errorf("%w %q", ErrNoKind, kind)
	}
	return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
}

// ErrNoKind: the member answered that it serves no such kind.
var ErrNoKind = errors.New("no resource type")

// NotFound tells whether the member answered that there is no such object.
func NotFound(err error) bool { return apierrors.IsNotFound(err) }

// Columns are the names of a table's columns; wide adds those that are shown on demand.
func Columns(t *metav1.Table, wide bool) []string {
	var names []string
	for _, c := range t.ColumnDefinitions {
		if c.Priority == 0 || wide {
			names = append(names, c.Name)
		}
	}
	return names
}

// Row is one line of a table.
type Row struct {
	Namespace string
	Cells     []string
	// Object is the row's, with metadata alone unless Query.Full asked for all of it; nil if it cannot be read.
	Object api.Object
}

// Rows are the table's lines with the named columns; one that the table does not have is "<none>".
func Rows(t *metav1.Table, columns []string) []Row {
	at := map[string]int{}
	for i, c := range t.ColumnDefinitions {
		at[c.Name] = i
	}
	rows := make([]Row, 0, len(t.Rows))
	for _, r := range t.Rows {
		row := Row{Cells: make([]string, len(columns))}
		if o, err := canonical.Parse(r.Object.Raw); err == nil {
			row.Namespace, row.Object = api.IDOf(o).Namespace, o
		}
		for i, c := range columns {
			row.Cells[i] = "<none>"
			if j, ok := at[c]; ok && j < len(r.Cells) {
				row.Cells[i] = fmt.Sprint(r.Cells[j])
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// Annotated is o with one annotation more.
func Annotated(o api.Object, key, value string) api.Object {
	o = maps.Clone(o)
	meta, _ := o["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	marks, _ := meta["annotations"].(map[string]any)
	marks = maps.Clone(marks)
	if marks == nil {
		marks = map[string]any{}
	}
	marks[key] = value
	meta["annotations"], o["metadata"] = marks, meta
	return o
}

// Annotation is the value of an annotation, empty if o does not have it.
func Annotation(o api.Object, key string) string {
	meta, _ := o["metadata"].(map[string]any)
	marks, _ := meta["annotations"].(map[string]any)
	s, _ := marks[key].(string)
	return s
}

// Age is a duration as kubectl prints it.
func Age(d time.Duration) string { return duration.HumanDuration(d) }
