package report

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// Recorded is one commit of the state branch and what it changed over its first parent.
type Recorded struct {
	Commit, Subject string
	// Author is who made it, as git prints people.
	Author string
	// When is the commit's own time; that of the decision is in a trailer.
	When time.Time
	// Trailers by key.
	Trailers map[string]string
	// Signature says who signed it and whether that is as it should be; empty if that is not known.
	Signature string
	Files     []RecordedFile
	// Before and After are the trees; only files that count are read in them.
	Before, After fs.FS
}

// RecordedFile is a file that differs; a zero hash stands for none.
type RecordedFile struct {
	Path          string
	Before, After record.Hash
}

// HistoryQuery says what of the record to show; the zero value means all decisions.
type HistoryQuery struct {
	// Kind and Name are those of a workload, as people write them; with it comes what follows it as a dependency.
	Kind, Name string
	// Namespace of the workload; empty means any.
	Namespace string
	// Cluster is a member: what came to it, left it or happened to it.
	Cluster string
	// Since is the time of the earliest decision; zero means no limit.
	Since time.Time
	// Status: what was only seen, such as the health of copies, counts too.
	Status bool
}

// Entry is one line of the record: what one commit changed for one binding or member.
type Entry struct {
	Time   time.Time `json:"time"`
	Commit string    `json:"commit"`
	Reason string    `json:"reason"`
	// Binding is "namespace/name", or the name alone without a namespace; empty for what is about no binding.
	Binding string   `json:"binding"`
	From    []Target `json:"from"`
	To      []Target `json:"to"`
	Message string   `json:"message"`
	// Cluster is the member that a line without a binding is about, if it is about one.
	Cluster string `json:"cluster,omitempty"`
	// Author is set for a person's commit.
	Author string `json:"author,omitempty"`
	// Signature is that of the commit; empty where nobody said whose keys to trust.
	Signature string `json:"signature,omitempty"`
	Source    string `json:"source,omitempty"`
}

// BadSignature begins the Signature of a commit that is not signed as it should be.
const BadSignature = "bad: "

// History reads the record, newest commit first. It remembers what it decoded last of each file: the version before
// a commit is the one after an earlier.
type History struct {
	q        HistoryQuery
	bindings map[string]version[workv1alpha2.ResourceBinding]
	members  map[string]version[clusterv1alpha1.Cluster]
}

type version[T any] struct {
	hash  record.Hash
	value *T
	err   error
}

// NewHistory prepares to read.
func NewHistory(q HistoryQuery) *History {
	return &History{q, map[string]version[workv1alpha2.ResourceBinding]{}, map[string]version[clusterv1alpha1.Cluster]{}}
}

// Of lists what a commit changed, sorted: bindings first, then members, then the rest. Done means that everything
// older is out of the query's time. The error is that of a tree that cannot be read.
func (h *History) Of(c Recorded) (entries []Entry, done bool, err error) {
	r := reading{History: h, c: c, head: Entry{Commit: c.Commit, Signature: c.Signature, Source: c.Trailers["Godwit-Source"],
		Reason: cmp.Or(c.Trailers["Godwit-Reason"], string(decide.Operator)), Time: c.When.UTC()}}
	if c.Trailers["Godwit-Version"] == "" {
		r.head.Author = cmp.Or(c.Author, "unknown")
	} else if t, err := time.Parse(time.RFC3339, c.Trailers["Godwit-Time"]); err == nil {
		r.head.Time = t.UTC()
	}
	if r.head.Time.Before(h.q.Since) {
		return nil, r.head.Author == "", nil // the clock of a person may be anywhere
	}
	for _, step := range []func() error{r.sort, r.bindingEntries, r.memberEntries, r.metaEntries} {
		if err := step(); err != nil {
			return nil, false, fmt.Errorf("commit %s: %w", c.Commit, err)
		}
	}
	told := !r.quiet && (h.q.Status || r.head.Reason != string(decide.Status)) || strings.HasPrefix(c.Signature, BadSignature)
	if len(r.entries) == 0 && !h.filtered() && told {
		r.add(Entry{}, c.Subject)
	}
	return r.entries, false, nil
}

func (h *History) filtered() bool { return h.q.Name != "" || h.q.Cluster != "" }

// reading is one call of Of.
type reading struct {
	*History
	c       Recorded
	head    Entry
	entries []Entry
	// quiet: something changed that only the status of a query would show.
	quiet bool

	files   map[record.BindingKey]RecordedFile
	works   map[record.BindingKey]*workChange
	members []RecordedFile
	meta    bool
}

// workChange is what happened to the works of one binding, by member.
type workChange struct {
	place                 record.Place
	updated, retired, end []string
}

// sort puts the files of the commit to what they are about.
func (r *reading) sort() error {
	r.files, r.works = map[record.BindingKey]RecordedFile{}, map[record.BindingKey]*workChange{}
	for _, f := range r.c.Files {
		if key, ok := record.BindingAt(f.Path); ok {
			r.files[key] = f
		} else if _, ok := record.ClusterAt(f.Path); ok {
			r.members = append(r.members, f)
		} else if p, ok := record.PlaceOf(f.Path); ok {
			w := r.works[p.Binding]
			if w == nil {
				w = &workChange{place: p}
				r.works[p.Binding] = w
			}
			gone := f.After == record.Hash{}
			switch {
			case p.Retired && gone:
				w.end = append(w.end, p.Member)
			case p.Retired:
				w.retired = append(w.retired, p.Member)
			case !gone:
				w.updated = append(w.updated, p.Member)
			}
		} else if f.Path == record.MetaPath {
			r.meta = true
		}
	}
	return nil
}

// add appends a line with the head of the commit.
func (r *reading) add(e Entry, messages ...string) {
	if r.head.Author != "" && !slices.Contains(messages, r.c.Subject) {
		messages = append([]string{r.c.Subject}, messages...)
	}
	e.Time, e.Commit, e.Reason, e.Author, e.Source, e.Signature = r.head.Time, r.head.Commit, r.head.Reason, r.head.Author, r.head.Source, r.head.Signature
	e.Message = strings.Join(slices.DeleteFunc(messages, func(s string) bool { return s == "" }), "; ")
	if e.From == nil {
		e.From = []Target{}
	}
	if e.To == nil {
		e.To = []Target{}
	}
	r.entries = append(r.entries, e)
}

func (r *reading) bindingEntries() error {
	keys := slices.Collect(maps.Keys(r.files))
	for key := range r.works {
		if _, ok := r.files[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, record.BindingKey.Compare)
	for _, key := range keys {
		if err := r.bindingEntry(key); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) bindingEntry(key record.BindingKey) error {
	f, changed := r.files[key]
	works := r.works[key]
	named := r.names(key, works)
	if !changed {
		f = RecordedFile{Path: key.Path()}
		for _, side := range []struct {
			tree fs.FS
			hash *record.Hash
		}{{r.c.Before, &f.Before}, {r.c.After, &f.After}} {
			var err error
			if *side.hash, err = hashOf(side.tree, f.Path); err != nil {
				return err
			}
		}
	}
	if !named {
		follows, err := r.follows(f)
		if err != nil || !follows {
			return err
		}
	}
	old, oldErr, err := r.binding(r.c.Before, f.Path, f.Before)
	if err != nil {
		return err
	}
	next, nextErr, err := r.binding(r.c.After, f.Path, f.After)
	if err != nil {
		return err
	}
	r.bindings[f.Path] = version[workv1alpha2.ResourceBinding]{f.Before, old, oldErr}
	if !named && !r.follow(old) && !r.follow(next) {
		return nil
	}
	e := Entry{Binding: key.String(), From: clustersOf(old), To: clustersOf(next)}
	var messages []string
	switch {
	case nextErr != nil:
		messages = append(messages, "the file does not decode: "+nextErr.Error())
	case oldErr != nil:
		messages = append(messages, "the file decodes again")
	case old == nil && next == nil: // its works are all that is left of it, or all there ever was
		if messages = works.messages(); len(messages) == 0 {
			return nil
		}
		name := works.place.Name
		if works.place.Namespace != "" {
			name = works.place.Namespace + "/" + name
		}
		e.Binding, messages = "", append([]string{works.place.Kind + " " + name}, messages...)
	case old == nil:
		messages = append([]string{"added"}, conditionChanges(nil, next.Status.Conditions)...)
	case next == nil:
		messages = append(messages, "removed")
	default:
		messages = bindingChanges(old, next)
		same := slices.Equal(e.From, e.To)
		if same {
			messages = append(messages, works.messages()...)
		}
		switch {
		case len(messages) > 0:
		case !same && slices.EqualFunc(e.From, e.To, func(a, b Target) bool { return a.Name == b.Name }):
			messages = append(messages, "scaled")
		case !same:
			messages = append(messages, "moved")
		case !equality.Semantic.DeepEqual(old.Spec.RequiredBy, next.Spec.RequiredBy):
			messages = append(messages, alongText(next.Spec.RequiredBy))
		case !equality.Semantic.DeepEqual(old.Spec, next.Spec):
			messages = append(messages, "terms changed")
		case r.q.Status:
			messages = append(messages, statusText(next))
		case r.head.Author == "":
			r.quiet = true
			return nil
		}
	}
	if r.q.Cluster != "" && !touches(r.q.Cluster, works, old, next) {
		return nil
	}
	r.add(e, messages...)
	return nil
}

// alongText says whom a dependency follows, and where.
func alongText(owners []workv1alpha2.BindingSnapshot) string {
	if len(owners) == 0 {
		return "nothing needs it any more"
	}
	words := make([]string, len(owners))
	for i, o := range owners {
		key := record.BindingKey{Namespace: o.Namespace, Name: o.Name}
		words[i] = fmt.Sprintf("%s: %s", key, targetsText(sortedTargets(o.Clusters)))
	}
	return "goes along with " + strings.Join(words, ", ")
}

// hashOf is the hash of a file, zero if there is none.
func hashOf(tree fs.FS, path string) (h record.Hash, err error) {
	known, ok := tree.(interface{ Hash(string) (string, error) })
	if !ok {
		return h, fmt.Errorf("the tree of %s knows no hashes", path)
	}
	text, err := known.Hash(path)
	switch {
	case isNotExist(err):
		return h, nil
	case err != nil:
		return h, err
	}
	return record.ParseHash(text)
}

// names tells whether the query is about that binding, by the parts of its name alone.
func (r *reading) names(key record.BindingKey, works *workChange) bool {
	if r.q.Name == "" {
		return true
	}
	if r.q.Namespace != "" && key.Namespace != "" && key.Namespace != r.q.Namespace {
		return false
	}
	name := strings.ToLower(strings.ReplaceAll(r.q.Name, ":", "."))
	kind, ok := strings.CutPrefix(key.Name, name+"-")
	return ok && (works == nil || strings.EqualFold(works.place.Name, r.q.Name)) && meansLower(r.q.Kind, kind)
}

// meansLower is means for a kind that is known in lower case and without its group.
func meansLower(word, kind string) bool {
	word, _, _ = strings.Cut(word, ".")
	return means(word, api.ID{Kind: kind}) || strings.EqualFold(shortNames[strings.ToLower(word)], kind)
}

// follows tells whether the file may be that of a dependency of what the query names, by a glance at its text.
func (r *reading) follows(f RecordedFile) (bool, error) {
	name := []byte(strings.ToLower(strings.ReplaceAll(r.q.Name, ":", ".")) + "-")
	for _, side := range []struct {
		tree fs.FS
		hash record.Hash
	}{{r.c.Before, f.Before}, {r.c.After, f.After}} {
		if side.hash == (record.Hash{}) {
			continue
		}
		text, err := fs.ReadFile(side.tree, f.Path)
		if err != nil {
			return false, err
		}
		if bytes.Contains(text, []byte("requiredBy:")) && bytes.Contains(text, name) {
			return true, nil
		}
	}
	return false, nil
}

func (r *reading) follow(b *workv1alpha2.ResourceBinding) bool {
	return b != nil && slices.ContainsFunc(b.Spec.RequiredBy, func(s workv1alpha2.BindingSnapshot) bool {
		return r.names(record.BindingKey{Namespace: s.Namespace, Name: s.Name}, nil)
	})
}

// binding decodes a file; bad is that of its content.
func (r *reading) binding(tree fs.FS, path string, hash record.Hash) (b *workv1alpha2.ResourceBinding, bad, err error) {
	return decoded(r.bindings, tree, path, hash, record.DecodeBinding)
}

func decoded[T any](known map[string]version[T], tree fs.FS, path string, hash record.Hash, decode func(string, []byte) (*T, error)) (*T, error, error) {
	if hash == (record.Hash{}) {
		return nil, nil, nil
	}
	if v, ok := known[path]; ok && v.hash == hash {
		return v.value, v.err, nil
	}
	text, err := fs.ReadFile(tree, path)
	if err != nil {
		return nil, nil, err
	}
	v, bad := decode(path, text)
	return v, bad, nil
}

func clustersOf(b *workv1alpha2.ResourceBinding) []Target {
	if b == nil {
		return nil
	}
	return sortedTargets(b.Spec.Clusters)
}

// messages say what happened to the works, for a binding that stays where it is.
func (w *workChange) messages() []string {
	if w == nil {
		return nil
	}
	var all []string
	for _, part := range []struct {
		what string
		on   []string
	}{{"updated on", w.updated}, {"to be deleted on", w.retired}, {"gone from", w.end}} {
		if len(part.on) > 0 {
			slices.Sort(part.on)
			all = append(all, part.what+" "+strings.Join(slices.Compact(part.on), " "))
		}
	}
	return all
}

// touches tells whether a change concerns the member.
func touches(member string, works *workChange, sides ...*workv1alpha2.ResourceBinding) bool {
	if works != nil && slices.Contains(slices.Concat(works.updated, works.retired, works.end), member) {
		return true
	}
	for _, b := range sides {
		if b == nil {
			continue
		}
		if slices.ContainsFunc(b.Spec.Clusters, func(c workv1alpha2.TargetCluster) bool { return c.Name == member }) ||
			slices.ContainsFunc(b.Spec.GracefulEvictionTasks, func(t workv1alpha2.GracefulEvictionTask) bool { return t.FromCluster == member }) ||
			slices.ContainsFunc(b.Spec.ActiveEvictionHistory, func(e workv1alpha2.EvictionRecord) bool { return e.ClusterName == member }) {
			return true
		}
	}
	return false
}

// bindingChanges are the words for what differs, but for where the binding runs.
func bindingChanges(old, next *workv1alpha2.ResourceBinding) []string {
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	task := func(tasks []workv1alpha2.GracefulEvictionTask, from string) *workv1alpha2.GracefulEvictionTask {
		i := slices.IndexFunc(tasks, func(t workv1alpha2.GracefulEvictionTask) bool { return t.FromCluster == from })
		if i < 0 {
			return nil
		}
		return &tasks[i]
	}
	leaving := map[string]bool{}
	for _, t := range next.Spec.GracefulEvictionTasks {
		was := task(old.Spec.GracefulEvictionTasks, t.FromCluster)
		switch {
		case was == nil:
			leaving[t.FromCluster] = true
			words := t.Reason
			if t.Message != "" {
				words += ": " + t.Message
			}
			say("leaves %s (%s)", t.FromCluster, words)
		case truth(was.SuppressDeletion) && t.SuppressDeletion != nil && !*t.SuppressDeletion:
			say("the copy on %s may go", t.FromCluster)
		}
	}
	for _, t := range old.Spec.GracefulEvictionTasks {
		if task(next.Spec.GracefulEvictionTasks, t.FromCluster) == nil {
			say("left %s", t.FromCluster)
		}
	}
	blocked := func(list []workv1alpha2.EvictionRecord, name string) bool {
		return slices.ContainsFunc(list, func(e workv1alpha2.EvictionRecord) bool { return e.ClusterName == name })
	}
	for _, e := range next.Spec.ActiveEvictionHistory {
		if !blocked(old.Spec.ActiveEvictionHistory, e.ClusterName) && !leaving[e.ClusterName] {
			say("%s is avoided (%s)", e.ClusterName, e.Reason)
		}
	}
	for _, e := range old.Spec.ActiveEvictionHistory {
		if !blocked(next.Spec.ActiveEvictionHistory, e.ClusterName) {
			say("%s is avoided no more", e.ClusterName)
		}
	}
	all = append(all, conditionChanges(old.Status.Conditions, next.Status.Conditions)...)
	if a, b := old.Spec.Policy, next.Spec.Policy; a != nil && b != nil && *a != *b {
		say("from policy %s to %s", policyText((*Policy)(a)), policyText((*Policy)(b)))
	}
	if a, b := old.Spec.Replicas, next.Spec.Replicas; a != b {
		say("replicas %d to %d", a, b)
	}
	return all
}

func truth(b *bool) bool { return b != nil && *b }

// conditionChanges tell of conditions that became false or another kind of false, and of those that did not stay so.
// Whether copies are applied is status.
func conditionChanges(old, next []metav1.Condition) []string {
	var all []string
	for _, c := range next {
		i := slices.IndexFunc(old, func(o metav1.Condition) bool { return o.Type == c.Type })
		switch {
		case c.Type == workv1alpha2.ConditionFullyApplied || i >= 0 && old[i].Status == c.Status && old[i].Reason == c.Reason:
		case i < 0 && c.Status == metav1.ConditionTrue && c.Type == workv1alpha2.ConditionScheduled:
		case c.Type != workv1alpha2.ConditionScheduled:
			all = append(all, strings.Trim(c.Type+" "+string(c.Status)+": "+c.Message, " :"))
		case c.Status == metav1.ConditionTrue:
			all = append(all, "scheduled again")
		default:
			all = append(all, strings.Trim(c.Reason+": "+c.Message, " :"))
		}
	}
	for _, o := range old {
		gone := !slices.ContainsFunc(next, func(c metav1.Condition) bool { return c.Type == o.Type })
		if gone && o.Type != workv1alpha2.ConditionFullyApplied && o.Type != workv1alpha2.ConditionScheduled {
			all = append(all, o.Type+" no more")
		}
	}
	return all
}

// statusText is "kube02 Healthy, kube03 not applied".
func statusText(b *workv1alpha2.ResourceBinding) string {
	words := make([]string, len(b.Status.AggregatedStatus))
	for i, item := range b.Status.AggregatedStatus {
		words[i] = item.ClusterName + " " + cmp.Or(string(item.Health), string(workv1alpha2.ResourceUnknown))
		if !item.Applied {
			words[i] = item.ClusterName + " not applied"
		}
	}
	return strings.Join(words, ", ")
}

func (r *reading) memberEntries() error {
	if r.q.Name != "" {
		return nil
	}
	for _, f := range r.members {
		name, _ := record.ClusterAt(f.Path)
		if r.q.Cluster != "" && name != r.q.Cluster {
			continue
		}
		old, oldErr, err := decoded(r.History.members, r.c.Before, f.Path, f.Before, record.DecodeCluster)
		if err != nil {
			return err
		}
		next, nextErr, err := decoded(r.History.members, r.c.After, f.Path, f.After, record.DecodeCluster)
		if err != nil {
			return err
		}
		r.History.members[f.Path] = version[clusterv1alpha1.Cluster]{f.Before, old, oldErr}
		var messages []string
		switch {
		case nextErr != nil:
			messages = append(messages, "the file does not decode: "+nextErr.Error())
		case oldErr != nil:
			messages = append(messages, "the file decodes again")
		case next == nil:
			messages = append(messages, "left")
		default:
			if messages = clusterChanges(old, next); len(messages) > 0 {
				break
			}
			if !r.q.Status && r.head.Author == "" {
				r.quiet = true
				continue
			}
			messages = append(messages, "facts of the member")
		}
		r.add(Entry{Cluster: name}, messages...)
	}
	return nil
}

// clusterChanges are the words for what differs in a member, but for facts that change all the time.
func clusterChanges(old, next *clusterv1alpha1.Cluster) []string {
	var all []string
	if old == nil {
		all, old = append(all, "joined"), &clusterv1alpha1.Cluster{Spec: next.Spec, ObjectMeta: next.ObjectMeta}
	}
	if old.DeletionTimestamp == nil && next.DeletionTimestamp != nil {
		all = append(all, "leaves")
	}
	condition := func(c *clusterv1alpha1.Cluster) metav1.Condition {
		for _, cond := range c.Status.Conditions {
			if cond.Type == clusterv1alpha1.ConditionReady {
				return cond
			}
		}
		return metav1.Condition{}
	}
	if a, b := condition(old), condition(next); a.Status != b.Status && b.Status != "" {
		all = append(all, "Ready "+cmp.Or(string(a.Status), "-")+" to "+string(b.Status)+why(b))
	}
	text := func(c *clusterv1alpha1.Cluster) []string {
		var all []string
		for _, t := range c.Spec.Taints {
			all = append(all, t.ToString())
		}
		return all
	}
	a, b := text(old), text(next)
	for _, t := range b {
		if !slices.Contains(a, t) {
			all = append(all, "taint "+t)
		}
	}
	for _, t := range a {
		if !slices.Contains(b, t) {
			all = append(all, "no taint "+t+" any more")
		}
	}
	x, y := old.Spec, next.Spec
	x.Taints, y.Taints = nil, nil
	if x.ID != "" && x.ID != y.ID {
		all = append(all, "another cluster: UID "+y.ID)
	}
	x.ID, y.ID = "", ""
	if !equality.Semantic.DeepEqual(x, y) || !maps.Equal(old.Labels, next.Labels) {
		all = append(all, "registration changed")
	}
	return all
}

func why(c metav1.Condition) string {
	words := strings.Trim(c.Reason+": "+c.Message, " :")
	if words == "" || c.Status == metav1.ConditionTrue {
		return ""
	}
	return " (" + words + ")"
}

// metaEntries tell what is held back and what people let go.
func (r *reading) metaEntries() error {
	if !r.meta {
		return nil
	}
	var texts [2][]byte
	told := false
	for i, tree := range []fs.FS{r.c.Before, r.c.After} {
		var err error
		if texts[i], err = fs.ReadFile(tree, record.MetaPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, word := range []string{"braked:", "approvals:", "failoverBrake:", "rewrite:"} { // most often there is none of them
			told = told || bytes.Contains(texts[i], []byte(word))
		}
	}
	if !told {
		return nil
	}
	var old, next record.Meta
	if yaml.Unmarshal(texts[0], &old) != nil || yaml.Unmarshal(texts[1], &next) != nil {
		if !r.filtered() {
			r.add(Entry{}, record.MetaPath+" does not decode, or did not before")
		}
		return nil
	}
	held := func(m record.Meta) []string {
		var names []string
		for _, b := range m.Braked {
			names = append(names, b.Member)
		}
		return names
	}
	r.tellMembers(held(old), held(next), "deletions are held until they are approved", "no deletions are held any more")
	if !r.filtered() && !old.FailoverBrake.Same(next.FailoverBrake) {
		switch was, is := old.FailoverBrake, next.FailoverBrake; {
		case is == nil:
			r.add(Entry{}, "evictions are held no more")
		case is.Approved && (was == nil || !was.Approved):
			r.add(Entry{}, "evictions are approved")
		default:
			r.add(Entry{}, "evictions are held: "+is.Message)
		}
	}
	for _, a := range next.Approvals {
		if !slices.ContainsFunc(old.Approvals, func(o record.Approval) bool {
			return o.Cluster == a.Cluster && o.Time.Equal(&a.Time)
		}) {
			r.approval(a)
		}
	}
	if !r.filtered() && next.Rewrite != nil && !next.Rewrite.Same(old.Rewrite) {
		r.add(Entry{}, fmt.Sprintf("the source may go on from %.7s in place of %.7s, approved by %s", next.Rewrite.To, next.Rewrite.From, next.Rewrite.By))
	}
	if !r.filtered() && next.Rewrite == nil && old.RewriteApproved() != nil {
		r.add(Entry{}, fmt.Sprintf("the source went on from %.7s to %.7s, as approved by %s", old.Rewrite.From, next.Source.Commit, old.Rewrite.By))
	}
	return nil
}

// tellMembers says which members a list gained and lost.
func (r *reading) tellMembers(old, next []string, gained, lost string) {
	for _, part := range []struct {
		in, out []string
		message string
	}{{next, old, gained}, {old, next, lost}} {
		for _, name := range part.in {
			if !slices.Contains(part.out, name) && r.q.Name == "" && (r.q.Cluster == "" || r.q.Cluster == name) {
				r.add(Entry{Cluster: name}, part.message)
			}
		}
	}
}

func (r *reading) approval(a record.Approval) {
	works := slices.DeleteFunc(slices.Clone(a.Works), func(path string) bool {
		p, ok := record.PlaceOf(path)
		return !ok || !r.names(p.Binding, &workChange{place: p})
	})
	if len(works) == 0 || r.q.Cluster != "" && r.q.Cluster != a.Cluster {
		return
	}
	r.add(Entry{Cluster: a.Cluster}, fmt.Sprintf("the deletion of %d objects is approved by %s", len(a.Works), a.By))
}

// isNotExist tells a file that is not there from one that cannot be read.
func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// subject is what a line is about, for the column BINDING.
func (e Entry) subject() string {
	switch {
	case e.Binding != "":
		return flat(e.Binding)
	case e.Cluster != "":
		return "cluster/" + flat(e.Cluster)
	}
	return "-"
}

// message is the message for people: a person's commit says whose it is, and one with a bad signature why that is.
func (e Entry) message() string {
	text := e.Message
	if e.Author != "" {
		text = "by " + e.Author + ": " + text
	}
	if why, bad := strings.CutPrefix(e.Signature, BadSignature); bad {
		text = "[signature: " + why + "] " + text
	}
	return flat(text)
}

// shortCommit is how many digits of a commit people are shown.
const shortCommit = 7

func (e Entry) cells() []string {
	return []string{e.Time.Format(time.RFC3339), flat(e.Commit[:min(shortCommit, len(e.Commit))]), flat(e.Reason), e.subject(), targetsText(e.From), targetsText(e.To), e.message()}
}

var historyHeads = []string{"TIME", "COMMIT", "REASON", "BINDING", "FROM", "TO", "MESSAGE"}

// HistoryText prints the lines as a table for a terminal.
func HistoryText(w io.Writer, s Style, entries []Entry) error {
	rows := [][]string{historyHeads}
	for _, e := range entries {
		rows = append(rows, e.cells())
	}
	return Table(w, s, rows)
}

// HistoryMarkdown is the lines as a table of Markdown; what does not fit is counted.
func HistoryMarkdown(entries []Entry) string {
	d := &document{command: "history"}
	d.add("| " + strings.ToLower(strings.Join(historyHeads, " | ")) + " |\n|" + strings.Repeat(" --- |", len(historyHeads)) + "\n")
	for _, e := range entries {
		cells := e.cells()
		for i := range cells {
			cells[i] = cell(cells[i])
		}
		d.add("| " + strings.Join(cells, " | ") + " |\n")
	}
	return d.String()
}
