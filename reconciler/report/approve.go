package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// Kinds of what may wait for a person: deletions that the brake on them holds, all evictions while the brake on those
// is on, a copy that an eviction with purge mode Never left behind, and a history of the source that does not come after
// the commit in force.
const (
	WaitingDeletions  = "Deletions"
	WaitingFailover   = "Failover"
	WaitingPurgeNever = "PurgeNever"
	WaitingRewrite    = "SourceRewrite"
)

// WaitingKinds are all of them.
var WaitingKinds = []string{WaitingDeletions, WaitingFailover, WaitingPurgeNever, WaitingRewrite}

// Waiting is one thing that goes on when a person approves it.
type Waiting struct {
	Kind    string `json:"kind"`
	Cluster string `json:"cluster,omitempty"`
	// Binding is "namespace/name"; empty for what no binding placed.
	Binding  string    `json:"binding,omitempty"`
	Resource *Resource `json:"resource,omitempty"`
	// From and To are the commit of the source in force and the one to go on from; empty for what is not about that.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Since is when it began to wait; nil where the record does not say.
	Since   *time.Time `json:"since,omitempty"`
	Message string     `json:"message"`
}

// same tells whether both are one thing, whatever is said of it.
func (w Waiting) same(o Waiting) bool {
	w.Message, o.Message = "", ""
	return w.key() == o.key()
}

func (w Waiting) key() string {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err) // strings and a time
	}
	return string(text)
}

// Waits lists what waits for a person: deletions that the decision holds, and what the state it was made on says of
// evictions. It is sorted.
func Waits(d *decide.Decision, s *record.State) []Waiting {
	waits := []Waiting{}
	for _, h := range d.Held {
		w := Waiting{Kind: WaitingDeletions, Cluster: h.Cluster, Message: h.Message}
		r := resource(h.ID)
		w.Resource = &r
		if key := record.BindingOf(h.ID); s.Bindings[key] != nil {
			w.Binding = key.String()
		}
		waits = append(waits, w)
	}
	if r := d.Refused; r != nil && r.Code == decide.CodeRewritten {
		waits = append(waits, Waiting{Kind: WaitingRewrite, From: r.InForce, To: string(r.Revision), Message: r.Message})
	}
	if b := s.Meta.FailoverBrake; b != nil && !b.Approved {
		since := b.Since.UTC()
		waits = append(waits, Waiting{Kind: WaitingFailover, Since: &since, Message: b.Message + "; no workload leaves a member"})
	}
	for key, b := range s.Bindings {
		for _, t := range b.Spec.GracefulEvictionTasks {
			if !truth(t.SuppressDeletion) {
				continue
			}
			o := b.Spec.Resource
			w := Waiting{Kind: WaitingPurgeNever, Cluster: t.FromCluster, Binding: key.String(), Resource: &Resource{o.APIVersion, o.Kind, o.Namespace, o.Name},
				Message: "the copy stays until it may be deleted: " + strings.Trim(t.Reason+": "+t.Message, " :")}
			if t.CreationTimestamp != nil {
				since := t.CreationTimestamp.UTC()
				w.Since = &since
			}
			waits = append(waits, w)
		}
	}
	slices.SortFunc(waits, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.key(), b.key()))
	})
	return waits
}

// WaitingQuery chooses among what waits; empty fields choose all.
type WaitingQuery struct {
	Kinds []string
	// Cluster is a member.
	Cluster string
	// ObjectKind and Name are those of an object, as people write them; Namespace is its namespace.
	ObjectKind, Name, Namespace string
}

// Named tells whether the query chooses anything but all.
func (q WaitingQuery) Named() bool { return len(q.Kinds) > 0 || q.Cluster != "" || q.Name != "" }

// Choose returns what the query chooses.
func (q WaitingQuery) Choose(waits []Waiting) []Waiting {
	chosen := []Waiting{}
	for _, w := range waits {
		object := q.Name == "" || w.Resource != nil && means(q.ObjectKind, w.Resource.id()) && w.Resource.Name == q.Name &&
			(q.Namespace == "" || w.Resource.Namespace == "" || w.Resource.Namespace == q.Namespace)
		if object && (q.Cluster == "" || q.Cluster == w.Cluster) && (len(q.Kinds) == 0 || slices.Contains(q.Kinds, w.Kind)) {
			chosen = append(chosen, w)
		}
	}
	return chosen
}

// Still returns what of seen still waits: nothing that came since is in it.
func Still(seen, waits []Waiting) []Waiting {
	return slices.DeleteFunc(slices.Clone(waits), func(w Waiting) bool { return !slices.ContainsFunc(seen, w.same) })
}

// SeenID names a list: another list has another one.
func SeenID(waits []Waiting) string {
	sum := sha256.New()
	for _, w := range waits {
		w.Message = ""
		io.WriteString(sum, w.key()+"\n")
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// Approve returns the files with which the state says that a person approves what is listed, and a subject and body
// for the commit.
func Approve(s *record.State, list []Waiting, by string, now time.Time) (files []record.File, subject, body string, err error) {
	meta := s.Meta
	meta.Approvals = slices.Clone(meta.Approvals)
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	works := map[string][]string{}
	next := s.Clone()
	named := make(map[string]record.BindingKey, len(s.Bindings))
	for key := range s.Bindings {
		named[key.String()] = key
	}
	for _, w := range list {
		switch w.Kind {
		case WaitingDeletions:
			works[w.Cluster] = append(works[w.Cluster], record.WorkPath(w.Cluster, w.Resource.id()))
		case WaitingFailover:
			brake := *meta.FailoverBrake
			brake.Approved = true
			meta.FailoverBrake = &brake
		case WaitingRewrite:
			meta.Rewrite = &record.Rewrite{From: w.From, To: w.To, Time: at, By: by}
		case WaitingPurgeNever:
			key := named[w.Binding]
			b := *next.Bindings[key]
			b.Spec.GracefulEvictionTasks = slices.Clone(b.Spec.GracefulEvictionTasks)
			for i := range b.Spec.GracefulEvictionTasks {
				if t := &b.Spec.GracefulEvictionTasks[i]; t.FromCluster == w.Cluster && truth(t.SuppressDeletion) {
					t.SuppressDeletion = new(bool)
				}
			}
			next.Bindings[key] = &b
		}
	}
	clusters := make([]string, 0, len(works))
	for cluster := range works {
		clusters = append(clusters, cluster)
	}
	slices.Sort(clusters)
	for _, cluster := range clusters {
		slices.Sort(works[cluster])
		meta.Approvals = append(meta.Approvals, record.Approval{Cluster: cluster, Works: works[cluster], Time: at, By: by})
	}
	next.Meta = meta
	if files, err = record.Diff(s, next); err != nil {
		return nil, "", "", err
	}
	subject = fmt.Sprintf("approve: %d that waited", len(list))
	if len(list) == 1 {
		subject = "approve: " + list[0].String()
	} else if !slices.ContainsFunc(list, func(w Waiting) bool { return w.Kind != WaitingDeletions || w.Cluster != list[0].Cluster }) {
		subject = fmt.Sprintf("approve(%s): the deletion of %d objects", list[0].Cluster, len(list))
	}
	var b strings.Builder
	const most = 50
	for i, w := range list {
		if i == most {
			fmt.Fprintf(&b, "and %d more\n", len(list)-most)
			break
		}
		fmt.Fprintf(&b, "- %s\n", w)
	}
	return files, subject, b.String(), nil
}

// String is "the deletion of ConfigMap default/a on kube02".
func (w Waiting) String() string {
	switch w.Kind {
	case WaitingDeletions:
		return "the deletion of " + w.Resource.String() + " on " + w.Cluster
	case WaitingFailover:
		return "evictions that the brake holds"
	case WaitingRewrite:
		return fmt.Sprintf("the source going on from %.7s to %.7s", w.From, w.To)
	}
	return "the deletion of the copy of " + w.Resource.String() + " left on " + w.Cluster
}

// WaitingText prints a list as a table for a terminal.
func WaitingText(w io.Writer, s Style, waits []Waiting) error {
	rows := [][]string{{"KIND", "CLUSTER", "OBJECT", "SINCE", "MESSAGE"}}
	for _, x := range waits {
		object, since := "-", "-"
		if x.To != "" {
			object = fmt.Sprintf("%.7s -> %.7s", x.From, x.To)
		}
		if x.Resource != nil {
			object = x.Resource.String()
		}
		if x.Since != nil {
			since = x.Since.Format(time.RFC3339)
		}
		rows = append(rows, []string{x.Kind, cmp.Or(x.Cluster, "-"), object, since, x.Message})
	}
	return Table(w, s, rows)
}
