package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/godwit-gitops/godwit/api"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

const (
	// APIVersion and Kind are what a scenario's file carries.
	APIVersion = "godwit.dev/v1alpha1"
	Kind       = "Scenario"
)

// Scenario is what happens to a fleet, and when.
type Scenario struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// Source is a folder or repository, relative to the scenario's file.
	Source string `yaml:"source"`
	// Start is the clock at the beginning; empty means 2026-01-01T00:00:00Z.
	Start string `yaml:"start,omitempty"`
	// Until is how much simulated time passes.
	Until   time.Duration `yaml:"until"`
	Members struct {
		// Startup is how long a new or changed workload takes to become Healthy; 0 means no time.
		Startup time.Duration `yaml:"startup,omitempty"`
	} `yaml:"members,omitempty"`
	Events []Event `yaml:"events,omitempty"`
}

// Event is one thing that happens; one field besides At says which.
type Event struct {
	At time.Duration `yaml:"at"`
	// Cluster is the member that Ready or Workload is about.
	Cluster string `yaml:"cluster,omitempty"`
	// Ready is True, False (not ready) or Unknown (unreachable).
	Ready string `yaml:"ready,omitempty"`
	// Workload gets a Health, a Status or both on Cluster, from then on.
	Workload *Workload      `yaml:"workload,omitempty"`
	Health   string         `yaml:"health,omitempty"`
	Status   map[string]any `yaml:"status,omitempty"`
	// Restart: the reconciler dies and starts again from the state branch.
	Restart bool `yaml:"restart,omitempty"`
	// Source is the next push: a folder or repository.
	Source string `yaml:"source,omitempty"`
	// GitDown is for how long the Git server cannot be reached.
	GitDown time.Duration `yaml:"gitDown,omitempty"`
	// Revert is "last", or the verb of a commit's subject such as failover: the newest such commit is reverted.
	Revert string `yaml:"revert,omitempty"`

	line int
}

// Workload names a template.
type Workload struct {
	APIVersion string `yaml:"apiVersion,omitempty"`
	Kind       string `yaml:"kind"`
	Namespace  string `yaml:"namespace,omitempty"`
	Name       string `yaml:"name"`
}

// UnmarshalYAML remembers the line, for errors found later.
func (e *Event) UnmarshalYAML(n *yaml.Node) error {
	type plain Event
	if err := n.Decode((*plain)(e)); err != nil {
		return err
	}
	e.line = n.Line
	if n.Kind == yaml.MappingNode {
		for i := 0; i < len(n.Content); i += 2 {
			if key := n.Content[i]; !slices.Contains(eventFields, key.Value) {
				return fmt.Errorf("line %d: events: unknown field %s; there are %s", key.Line, key.Value, strings.Join(eventFields, ", "))
			}
		}
	}
	return nil
}

var eventFields = []string{"at", "cluster", "ready", "workload", "health", "status", "restart", "source", "gitDown", "revert"}

// Parse reads a scenario. The error lists every mistake, with lines.
func Parse(text []byte) (*Scenario, error) {
	s := &Scenario{}
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	d.KnownFields(true)
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.APIVersion != APIVersion || s.Kind != Kind {
		bad("is %s %s; it must be %s %s", s.APIVersion, s.Kind, APIVersion, Kind)
	}
	if s.Source == "" {
		bad("source: is required: the folder or repository with policies and manifests")
	}
	if s.Start != "" {
		if _, err := time.Parse(time.RFC3339, s.Start); err != nil {
			bad("start: %q is no time like 2026-01-01T00:00:00Z", s.Start)
		}
	}
	if s.Until <= 0 {
		bad("until: must be a time like 15m")
	}
	if s.Members.Startup < 0 {
		bad("members.startup: %s is negative", s.Members.Startup)
	}
	for i := range s.Events {
		if err := s.Events[i].check(); err != nil {
			bad("line %d: events[%d]: %w", s.Events[i].line, i, err)
		}
	}
	return s, errors.Join(errs...)
}

func (e *Event) check() error {
	var what []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"ready", e.Ready != ""}, {"workload", e.Workload != nil}, {"restart", e.Restart}, {"source", e.Source != ""},
		{"gitDown", e.GitDown != 0}, {"revert", e.Revert != ""},
	} {
		if f.set {
			what = append(what, f.name)
		}
	}
	member := e.Ready != "" || e.Workload != nil
	switch {
	case len(what) == 0:
		return errors.New("nothing happens; give one of ready, workload, restart, source, gitDown, revert")
	case len(what) > 1:
		return fmt.Errorf("%s at once; write an event for each", strings.Join(what, " and "))
	case e.At < 0:
		return fmt.Errorf("at: %s is negative", e.At)
	case e.GitDown < 0:
		return fmt.Errorf("gitDown: %s is negative", e.GitDown)
	case member && e.Cluster == "":
		return fmt.Errorf("%s: on which cluster? give cluster", what[0])
	case !member && e.Cluster != "":
		return fmt.Errorf("%s has nothing to do with a cluster; take cluster out", what[0])
	case e.Workload == nil && (e.Health != "" || e.Status != nil):
		return errors.New("health and status: of which workload? give workload")
	case e.Workload != nil && e.Health == "" && e.Status == nil:
		return errors.New("workload: give health or status")
	case e.Workload != nil && (e.Workload.Kind == "" || e.Workload.Name == ""):
		return errors.New("workload: give kind and name, and namespace where it is not default")
	case e.Ready != "" && !slices.Contains([]string{"True", "False", "Unknown"}, e.Ready):
		return fmt.Errorf("ready: %q; it is True, False (not ready) or Unknown (unreachable)", e.Ready)
	case e.Health != "" && !slices.Contains(healths, workv1alpha2.ResourceHealth(e.Health)):
		return fmt.Errorf("health: %q; it is Healthy, Unhealthy or Unknown", e.Health)
	}
	return nil
}

var healths = []workv1alpha2.ResourceHealth{workv1alpha2.ResourceHealthy, workv1alpha2.ResourceUnhealthy, workv1alpha2.ResourceUnknown}

// Begin is the clock at the beginning.
func (s *Scenario) Begin() time.Time {
	if t, err := time.Parse(time.RFC3339, s.Start); err == nil {
		return t.UTC()
	}
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
}

// Sources are the names of the sources that the scenario needs, the first one first, each once.
func (s *Scenario) Sources() []string {
	names := []string{s.Source}
	for _, e := range s.Events {
		if e.Source != "" && !slices.Contains(names, e.Source) {
			names = append(names, e.Source)
		}
	}
	return names
}

// Text is the scenario's file.
func (s *Scenario) Text() []byte {
	text, err := yaml.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("encode a scenario: %v", err)) // it has nothing that could not be encoded
	}
	return text
}

// is tells whether the workload is the one of that identity.
func (w *Workload) is(id api.ID) bool {
	namespace := w.Namespace
	if namespace == "" && id.Namespace != "" {
		namespace = metav1.NamespaceDefault
	}
	if w.Kind != id.Kind || w.Name != id.Name || namespace != id.Namespace {
		return false
	}
	gv, err := schema.ParseGroupVersion(w.APIVersion)
	return w.APIVersion == "" || err == nil && gv.Group == id.Group
}
