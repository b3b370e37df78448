package pull

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/interpret"
)

// formatVersion is of reports; a reader knows no newer one. A field that is only added is no newer one.
const formatVersion = 1

// Limits of a report. The first two are for who fetches it.
const (
	MaxBytes   = 16 << 20  // of the pack
	MaxObject  = 256 << 10 // of each file
	MaxObjects = 100_000
	maxTotal   = 64 << 20 // of all files together
	maxLive    = 64 << 10 // of an object as it is told
	maxWhole   = MaxObject - maxMessage<<3
	maxMessage = 1 << 10
	maxAPIs    = 10_000
)

// Report is what an agent says of its member.
type Report struct {
	Head
	Facts
	// Copies by identity without version.
	Copies map[api.ID]Copy
}

// Head is report.json, which is new at each report.
type Head struct {
	APIVersion    string `json:"apiVersion"`
	Kind          string `json:"kind"`
	FormatVersion int    `json:"formatVersion"`
	Member        string `json:"member"`
	// Time is the agent's clock.
	Time time.Time `json:"time"`
	// Version is the program's.
	Version string `json:"version,omitempty"`
	// State is the commit of the state branch that is in force there.
	State gitstate.Revision `json:"state,omitempty"`
	// Ready, Reason and Message are of the member's API as the agent finds it.
	Ready   metav1.ConditionStatus `json:"ready"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
	UID     string                 `json:"uid,omitempty"`
}

// Facts is facts.json, which changes now and then.
type Facts struct {
	KubernetesVersion string                           `json:"kubernetesVersion,omitempty"`
	APIs              []clusterv1alpha1.APIEnablement  `json:"apis,omitempty"`
	APIsComplete      bool                             `json:"apisComplete,omitempty"`
	Namespaced        map[string]bool                  `json:"namespaced,omitempty"`
	Nodes             *clusterv1alpha1.NodeSummary     `json:"nodes,omitempty"`
	Resources         *clusterv1alpha1.ResourceSummary `json:"resources,omitempty"`
	NodeCapacity      *clusterv1alpha1.NodeCapacity    `json:"nodeCapacity,omitempty"`
}

// Copy is one object, in a file of its own.
type Copy struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Applied is the hash of the work that was applied last.
	Applied string `json:"applied,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Gone is the order to delete it that was carried out, by its time in Unix seconds.
	Gone int64 `json:"gone,omitempty"`
	// Live is what is told of the object; nil where it is not there, or too large: Health is by the built-in rules then.
	Live   api.Object                  `json:"live,omitempty"`
	Health workv1alpha2.ResourceHealth `json:"health,omitempty"`
	// Tracked names the other delivery that holds the object for its own.
	Tracked string `json:"tracked,omitempty"`
}

func (c Copy) id() api.ID {
	return api.ID{Group: c.Group, Kind: c.Kind, Namespace: c.Namespace, Name: c.Name}
}

const (
	headFile  = "report.json"
	factsFile = "facts.json"
	copiesDir = "copies"
)

// copyPath is the file of an object, named as its work is.
func copyPath(id api.ID) string {
	return copiesDir + strings.TrimSuffix(strings.TrimPrefix(record.WorkPath("m", id), "works/m"), ".yaml") + ".json"
}

// Encoding is a report by one of ourselves, who is not an agent. It is not changed.
type Encoding struct {
	Files map[string][]byte

	seen   decide.MemberFacts
	orders map[api.ID]Retired
	whole  bool
}

// maxWholeTotal is of all objects of a member together: of a member that has more they are told as agents do.
const maxWholeTotal = 32 << 20

// Encode puts what is seen of a member into files. Objects are whole where they are not too large, so that what is made of
// them does not depend on who saw them; but of Secrets nothing is told that could be a value. orders are what the member is
// to lose. There is no time in it: equal facts are equal files. before is the last one of the member, nil if there is none:
// what did not change since is not encoded again.
func Encode(name string, seen decide.MemberFacts, orders map[api.ID]Retired, version string, before *Encoding) (*Encoding, error) {
	e := &Encoding{seen: seen, orders: orders, whole: before == nil || before.whole}
	if total, err := e.encode(name, version, before); err != nil || total <= maxWholeTotal || !e.whole {
		return e, err
	}
	e.whole = false
	_, err := e.encode(name, version, before)
	return e, err
}

func (e *Encoding) encode(name, version string, before *Encoding) (total int, err error) {
	few := e.seen
	few.Copies = nil
	r := reportOf(name, few, nil)
	r.Version = version
	if e.Files, err = r.encode(); err != nil {
		return 0, err
	}
	for id := range e.seen.Copies {
		file := copyPath(id)
		if before != nil && before.whole == e.whole && before.has(e, id) {
			e.Files[file] = before.Files[file]
		} else {
			text, err := json.Marshal(e.copy(id))
			if err != nil {
				return 0, fmt.Errorf("%s: %w", id, err)
			}
			e.Files[file] = append(text, '\n')
		}
		total += len(e.Files[file])
	}
	return total, nil
}

// copy is what is told of an object.
func (e *Encoding) copy(id api.ID) Copy {
	c := e.seen.Copies[id]
	if e.whole && (id.Group != "" || id.Kind != "Secret") {
		if text, err := json.Marshal(c.Live); err == nil && len(text) <= maxWhole {
			told := copyOf(id, c, e.orders)
			told.Live, told.Tracked = c.Live, cut(e.seen.Tracked[id])
			return told
		}
	}
	told := copyOf(id, c, e.orders)
	told.Live, told.Health = tell(c.Live)
	told.Tracked = cut(e.seen.Tracked[id])
	return told
}

// has tells whether another encoding would tell the same of an object. Snapshots share what did not change.
func (e *Encoding) has(o *Encoding, id api.ID) bool {
	a, there := e.seen.Copies[id]
	b := o.seen.Copies[id]
	return there && a.Applied == b.Applied && a.Reason == b.Reason && a.Message == b.Message && a.Gone == b.Gone &&
		reflect.ValueOf(a.Live).Pointer() == reflect.ValueOf(b.Live).Pointer() &&
		e.seen.Tracked[id] == o.seen.Tracked[id] && e.orders[id].Since == o.orders[id].Since
}

// Heading reads the Ready condition out of the files of a report on a member.
func Heading(tree fs.FS, name string) (status metav1.ConditionStatus, reason, message string, err error) {
	text, err := fs.ReadFile(tree, headFile)
	var h Head
	if err == nil {
		err = unmarshal(text, &h)
	}
	if err == nil {
		err = h.check(name)
	}
	if err != nil {
		return "", "", "", fmt.Errorf("%s: %w", headFile, err)
	}
	return h.Ready, h.Reason, h.Message, nil
}

// reportOf puts into words what a fleet of one member knows. orders are what the member is to lose.
func reportOf(name string, seen decide.MemberFacts, orders map[api.ID]Retired) *Report {
	r := &Report{
		Head: Head{
			APIVersion: record.APIVersion, Kind: "AgentReport", FormatVersion: formatVersion, Member: name,
			Ready: seen.Ready, Reason: seen.Reason, Message: cut(seen.Message), UID: seen.UID,
		},
		Facts: Facts{
			KubernetesVersion: seen.Version, APIs: seen.APIs, APIsComplete: seen.APIsComplete, Namespaced: seen.Namespaced,
			Nodes: seen.Nodes, Resources: seen.Resources, NodeCapacity: seen.NodeCapacity,
		},
		Copies: make(map[api.ID]Copy, len(seen.Copies)),
	}
	for id, c := range seen.Copies {
		told := copyOf(id, c, orders)
		told.Live, told.Health = tell(c.Live)
		r.Copies[id] = told
	}
	return r
}

// copyOf is what is told of an object besides how it is.
func copyOf(id api.ID, c decide.CopyFacts, orders map[api.ID]Retired) Copy {
	told := Copy{Group: id.Group, Kind: id.Kind, Namespace: id.Namespace, Name: id.Name, Applied: c.Applied, Reason: c.Reason, Message: cut(c.Message)}
	if order, retired := orders[id]; retired && c.Gone {
		told.Gone = order.Since
	}
	return told
}

// tell is what is told of a live object: who it is, its status, and its spec but for what its pods are made of. Where
// that is too large, it is judged here.
func tell(live api.Object) (api.Object, workv1alpha2.ResourceHealth) {
	if live == nil {
		return nil, ""
	}
	told := api.Object{"apiVersion": live["apiVersion"], "kind": live["kind"]}
	if meta, ok := live["metadata"].(map[string]any); ok {
		some := map[string]any{}
		for _, field := range []string{"name", "namespace", "uid", "generation", "deletionTimestamp"} {
			if v, ok := meta[field]; ok {
				some[field] = v
			}
		}
		told["metadata"] = some
	}
	if spec, ok := live["spec"].(map[string]any); ok {
		spec = maps.Clone(spec)
		delete(spec, "template")
		told["spec"] = spec
	}
	if status, ok := live["status"]; ok {
		told["status"] = status
	}
	if text, err := json.Marshal(told); err == nil && len(text) <= maxLive {
		return told, ""
	}
	health, err := (&interpret.Interpreter{}).Health(live)
	if err != nil {
		health = workv1alpha2.ResourceUnknown
	}
	return nil, health
}

// cut shortens a message.
func cut(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage-3] + "..."
	}
	return strings.ToValidUTF8(s, "")
}

// encode writes the files of a report. Equal reports are equal files.
func (r *Report) encode() (map[string][]byte, error) {
	files := make(map[string][]byte, len(r.Copies)+2)
	put := func(name string, v any) error {
		text, err := json.Marshal(v)
		files[name] = append(text, '\n')
		return err
	}
	facts := r.Facts
	err := errors.Join(put(headFile, r.Head), put(factsFile, facts))
	if len(files[factsFile]) > MaxObject { // without the single nodes it is a summary
		facts.NodeCapacity = nil
		err = errors.Join(err, put(factsFile, facts))
	}
	for id, c := range r.Copies {
		if e := put(copyPath(id), c); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", id, e))
		}
	}
	return files, err
}

// decoded is a report with the hashes of its files, so that the next one costs what changed.
type decoded struct {
	Report
	files map[string]known
}

type known struct {
	hash string
	size int
	copy *Copy
}

// errTooLarge: nobody has that much to say.
var errTooLarge = errors.New("the report is too large")

// decode reads the report of a member. before is the one before, nil if there is none.
func decode(tree gitstate.HashFS, name string, before *decoded) (*decoded, error) {
	d := &decoded{files: map[string]known{}}
	total := 0
	read := func(file string) ([]byte, error) {
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return nil, err
		}
		if len(text) > MaxObject {
			return nil, fmt.Errorf("%s: %w: it has %d bytes", file, errTooLarge, len(text))
		}
		return text, nil
	}
	for _, part := range []struct {
		file string
		into any
	}{{headFile, &d.Head}, {factsFile, &d.Facts}} {
		text, err := read(part.file)
		if err != nil {
			return nil, err
		}
		if number, found := canonical.Endless(text); found && part.into == &d.Facts { // it has quantities
			return nil, fmt.Errorf("%s: %s is no number to compute with", part.file, number)
		}
		if err := unmarshal(text, part.into); err != nil {
			return nil, fmt.Errorf("%s: %w", part.file, err)
		}
		if part.into == &d.Head { // before anything else of it is looked at
			if err := d.Head.check(name); err != nil {
				return nil, fmt.Errorf("%s: %w", part.file, err)
			}
		}
	}
	if err := d.Facts.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", factsFile, err)
	}
	hash, err := tree.Hash(factsFile)
	if err != nil {
		return nil, err
	}
	d.files[factsFile] = known{hash: hash}
	d.Copies = map[api.ID]Copy{}
	err = eachCopy(tree, func(file string) error {
		hash, err := tree.Hash(file)
		if err != nil {
			return err
		}
		k, same := known{}, false
		if before != nil {
			k, same = before.files[file]
			same = same && k.hash == hash
		}
		if !same {
			text, err := read(file)
			if err != nil {
				return err
			}
			k = known{hash, len(text), &Copy{}}
			if err := unmarshal(text, k.copy); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if err := numbers(k.copy.Live); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if err := k.copy.check(file); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		if total += k.size; total > maxTotal || len(d.files) > MaxObjects {
			return errTooLarge
		}
		d.files[file], d.Copies[k.copy.id()] = k, *k.copy
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// eachCopy calls visit for the files of copies: two levels, and nothing below.
func eachCopy(tree fs.FS, visit func(file string) error) error {
	namespaces, err := fs.ReadDir(tree, copiesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range namespaces {
		dir := path.Join(copiesDir, n.Name())
		if !n.IsDir() || !plain(n.Name()) {
			return fmt.Errorf("%s holds %q, which is no folder of a namespace", copiesDir, n.Name())
		}
		files, err := fs.ReadDir(tree, dir)
		if err != nil {
			return err
		}
		for _, f := range files {
			if f.IsDir() || !plain(f.Name()) {
				return fmt.Errorf("%s holds %q, which is no file", dir, f.Name())
			}
			if err := visit(path.Join(dir, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// plain holds for what may be an entry of a tree. A hostile tree has others.
func plain(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.Contains(name, "/")
}

// unmarshal reads one JSON value and nothing behind it, with numbers as they are.
func unmarshal(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}

// numbers turns the numbers in an object into the two forms that objects have.
func numbers(o map[string]any) (err error) {
	var turn func(v any) any
	turn = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				v[k] = turn(e)
			}
		case []any:
			for i := range v {
				v[i] = turn(v[i])
			}
		case json.Number:
			if n, e := v.Int64(); e == nil {
				return n
			}
			f, e := v.Float64()
			if e != nil {
				err = fmt.Errorf("%.64s is no number to compute with", v)
			}
			return f
		}
		return v
	}
	turn(o)
	return err
}

var (
	reasonForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,63}$`)
	wordForm   = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9+._]{0,127}$`)
	hashForm   = regexp.MustCompile(`^[0-9a-f]{40}$`)
	states     = []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}
	healths    = []workv1alpha2.ResourceHealth{workv1alpha2.ResourceHealthy, workv1alpha2.ResourceUnhealthy, workv1alpha2.ResourceUnknown}
)

// errNewer says that a newer agent wrote the report.
var errNewer = errors.New("a newer godwit wrote the report; use that version here, too")

func (h Head) check(member string) error {
	switch {
	case h.APIVersion != record.APIVersion || h.Kind != "AgentReport":
		return fmt.Errorf("apiVersion %.64q and kind %.64q, want %s and AgentReport", h.APIVersion, h.Kind, record.APIVersion)
	case h.FormatVersion > formatVersion:
		return fmt.Errorf("%w: format version %d, this program knows %d", errNewer, h.FormatVersion, formatVersion)
	case h.FormatVersion < 1:
		return fmt.Errorf("format version %d", h.FormatVersion)
	case h.Member != member:
		return fmt.Errorf("it speaks of member %.64q on the branch of %s", h.Member, member)
	case !slices.Contains(states, h.Ready):
		return fmt.Errorf("ready is %.64q, not True, False or Unknown", h.Ready)
	case !optional(reasonForm, h.Reason), !text(h.Message), !optional(wordForm, h.UID), !optional(wordForm, h.Version), !optional(hashForm, string(h.State)):
		return errors.New("reason, message, uid, version or state has not its form")
	}
	return nil
}

func (f Facts) check() error {
	switch {
	case !optional(wordForm, f.KubernetesVersion):
		return errors.New("kubernetesVersion has not its form")
	case len(f.APIs) > maxAPIs || len(f.Namespaced) > maxAPIs:
		return errTooLarge
	case (f.Nodes == nil) != (f.Resources == nil):
		return errors.New("of nodes and resources there is only one")
	case f.Nodes != nil && (f.Nodes.TotalNum < 0 || f.Nodes.ReadyNum < 0 || f.Nodes.ReadyNum > f.Nodes.TotalNum):
		return fmt.Errorf("%d of %d nodes are ready", f.Nodes.ReadyNum, f.Nodes.TotalNum)
	}
	return nil
}

func (c *Copy) check(file string) error {
	switch {
	case copyPath(c.id()) != file:
		return fmt.Errorf("%s %.64q belongs into another file", c.Kind, c.Name)
	case !optional(hashForm, c.Applied), !optional(reasonForm, c.Reason), !text(c.Message), !text(c.Tracked), c.Gone < 0:
		return errors.New("applied, reason, message or gone has not its form")
	case c.Health != "" && !slices.Contains(healths, c.Health):
		return fmt.Errorf("health is %.64q", c.Health)
	case c.Live == nil:
		return nil
	}
	if id := api.IDOf(c.Live); id.Unversioned() != c.id() {
		return fmt.Errorf("live is %s %.64q", id.Kind, id.Name)
	}
	return nil
}

func optional(form *regexp.Regexp, s string) bool { return s == "" || form.MatchString(s) }

func text(s string) bool { return len(s) <= maxMessage && utf8.ValidString(s) }
