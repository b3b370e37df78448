package decide

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/policy"
)

// Registrations are the members that the management cluster names.
type Registrations struct {
	// Clusters has one for each name and each server.
	Clusters []Registration
	// Unknown says why it cannot be told which there are; what is on record stays in force then.
	Unknown string
	// Off: there is no management cluster to ask, which may be a slip. What is on record stays in force, unless
	// a source commit approves.
	Off bool
	// Findings are about the Secrets that they come from.
	Findings []render.Finding
}

// Registration is what the management cluster says of a member. It holds no credentials.
type Registration struct {
	// Name is the member's, unless a manifest of another name has Server as its apiEndpoint.
	Name string `json:"name"`
	// Secret is the "namespace/name" that it comes from.
	Secret string `json:"secret"`
	Server string `json:"server,omitempty"`
	// Member: it is a member even with no manifest, and what follows counts for one with a manifest that does
	// not say otherwise.
	Member   bool              `json:"member,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Provider string            `json:"provider,omitempty"`
	Region   string            `json:"region,omitempty"`
	Zone     string            `json:"zone,omitempty"`
	// Namespaces are the only ones that may be written to; empty means all. With some, nothing without
	// a namespace is written, unless ClusterResources says so.
	Namespaces       []string `json:"namespaces,omitempty"`
	ClusterResources bool     `json:"clusterResources,omitempty"`
	// Paused: nothing is written there, and no workload leaves because of its health.
	Paused bool `json:"paused,omitempty"`
}

// annotationRegistration on a member's file has the Registration in force, as JSON, so that who cannot
// ask the management cluster decides the same.
const annotationRegistration = "godwit.dev/registration"

// RegistrationOf is the one on a member's record; false if it has none.
func RegistrationOf(c *clusterv1alpha1.Cluster) (Registration, bool) {
	text := c.Annotations[annotationRegistration]
	if text == "" {
		return Registration{}, false
	}
	var r Registration
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Name == "" {
		return Registration{Name: c.Name, Member: true}, true // a slip in an edit takes no member away
	}
	return r, true
}

// recordedRegistrations are those in force by the record, sorted by member.
func recordedRegistrations(s *record.State) []Registration {
	var all []Registration
	for _, name := range sortedKeys(s.Members) {
		if c := s.Members[name]; c.DeletionTimestamp == nil {
			if r, ok := RegistrationOf(c); ok {
				all = append(all, r)
			}
		}
	}
	return all
}

// register finds out which registrations are in force.
func (p *pass) register() {
	recorded := recordedRegistrations(p.Previous)
	p.registrations = recorded
	if known := p.Registered; known != nil {
		p.find(known.Findings...)
		gone, stay := missing(recorded, known.Clusters)
		all := len(gone) + len(stay)
		switch {
		case known.Off && (len(recorded) == 0 || approves(p.Source.Message) && p.Recorded == nil):
			p.registrations = nil
		case known.Off:
			p.find(render.Finding{Severity: render.Warning, Code: "management-away", Object: "Clusters", Message: fmt.Sprintf(
				"no cluster Secrets are read (management.kubeconfig, clusters.argocd), and %s on record came from some: they stay as they are. Set it again, or let them go by a source commit with the trailer %q", strings.Join(namesOf(recorded), ", "), approval)})
		case known.Unknown != "":
			p.find(render.Finding{Severity: render.Warning, Code: "management-away", Object: "Clusters", Message: known.Unknown + "; the members that are on record stay as they are"})
		case len(gone) > 1 && len(gone)*100 > all*p.Options.MaxDeletePercent && p.Options.MaxDeletePercent < 100 && p.Recorded == nil && !approves(p.Source.Message):
			// Whoever empties a namespace, or takes a permission away, does not mean to give up the fleet.
			p.find(render.Finding{Severity: render.Error, Code: "registrations-gone", Object: "Clusters", Message: fmt.Sprintf(
				"%d of %d cluster Secrets went at once, more than %d %%: %s; these members stay as they are on record. Put the Secrets back, or let the members go by a source commit with the trailer %q",
				len(gone), all, p.Options.MaxDeletePercent, strings.Join(namesOf(gone), ", "), approval)})
			p.registrations = append(stay, gone...)
		default:
			p.registrations = known.Clusters
		}
	}
	p.Memo.register(p.registrations)
}

// missing are the registrations on record that made members and do so no more, and the others that there are now.
func missing(old, now []Registration) (gone, stay []Registration) {
	names := make(map[string]Registration, len(now))
	for _, r := range now {
		names[r.Name] = r
	}
	for _, r := range old {
		if is, there := names[r.Name]; !there || r.Member && !is.Member {
			gone = append(gone, r)
			delete(names, r.Name)
		}
	}
	for _, r := range now {
		if _, stays := names[r.Name]; stays {
			stay = append(stay, r)
		}
	}
	return gone, stay
}

func namesOf(registrations []Registration) []string {
	names := make([]string, len(registrations))
	for i, r := range registrations {
		names[i] = r.Name
	}
	return names
}

// register remembers the registrations, and forgets what was made with others.
func (m *Memo) register(registrations []Registration) {
	if !reflect.DeepEqual(m.registrations, registrations) {
		m.registrations = registrations
		m.registered++
	}
}

// claim is what is said of a member: by a manifest, by the management cluster, or both.
type claim struct {
	cluster *clusterv1alpha1.Cluster
	object  *manifest.Object // nil without a manifest
	secret  string           // that it is registered by; empty if it is not
	paused  bool
}

// finding is about what is wrong with a member, at the manifest if there is one.
func (c *claim) finding(code string, field []string, format string, args ...any) render.Finding {
	if c.object != nil {
		return c.object.Finding(render.Error, code, field, format, args...)
	}
	return render.Finding{Severity: render.Error, Code: code, Object: "Secret " + c.secret, Message: fmt.Sprintf(format, args...)}
}

// claims brings manifests and registrations together, the former first. A registration belongs to the manifest of its
// name, or else to the one whose apiEndpoint is its server.
func (p *pass) claims() []claim {
	byName, byServer := map[string]Registration{}, map[string]Registration{}
	for _, r := range p.registrations {
		byName[r.Name] = r
		if r.Server != "" {
			byServer[r.Server] = r
		}
	}
	taken := map[string]bool{}
	var claims []claim
	for _, m := range p.input.clusters.value {
		r, ok := byName[m.cluster.Name]
		if server := strings.TrimRight(m.cluster.Spec.APIEndpoint, "/"); !ok && server != "" {
			if r, ok = byServer[server]; ok && taken[r.Name] {
				ok = false
			}
		}
		c := claim{cluster: m.cluster, object: m.object}
		if ok {
			taken[r.Name] = true
			c.cluster, c.secret, c.paused = r.registered(m.cluster), r.Secret, r.Paused
		} else if m.cluster.Annotations[annotationRegistration] != "" { // the record's alone
			bare := *m.cluster
			bare.Annotations = maps.Clone(bare.Annotations)
			delete(bare.Annotations, annotationRegistration)
			c.cluster = &bare
		}
		claims = append(claims, c)
	}
	for _, r := range p.registrations {
		if !r.Member || taken[r.Name] || p.input.all[api.ID{Group: clusterv1alpha1.Group, Kind: "Cluster", Name: r.Name}] != nil {
			continue // a manifest that cannot be used says why, and is not passed over
		}
		taken[r.Name] = true
		if problem := policy.ClusterNameProblem(r.Name); problem != "" {
			p.find(render.Finding{Severity: render.Error, Code: "cluster-name", Object: "Secret " + r.Secret, Message: fmt.Sprintf(
				"name: %s, so it is no member; give it another name, or push a Cluster manifest of a name that will do with apiEndpoint: %s", problem, r.Server)})
			continue
		}
		c := r.registered(&clusterv1alpha1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: r.Name},
			Spec:       clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Push},
		})
		claims = append(claims, claim{cluster: c, secret: r.Secret, paused: r.Paused})
	}
	return claims
}

// registered is the cluster with what the registration says; what a manifest says goes first.
func (r Registration) registered(said *clusterv1alpha1.Cluster) *clusterv1alpha1.Cluster {
	c := *said
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and booleans
	}
	c.Annotations = withAnnotation(c.Annotations, annotationRegistration, string(text))
	if !r.Member {
		return &c
	}
	if len(r.Labels) > 0 {
		c.Labels = maps.Clone(r.Labels)
		maps.Copy(c.Labels, said.Labels)
	}
	orText(&c.Spec.APIEndpoint, r.Server)
	orText(&c.Spec.Provider, r.Provider)
	orText(&c.Spec.Region, r.Region)
	if len(c.Spec.Zones) == 0 && r.Zone != "" {
		c.Spec.Zones = []string{r.Zone}
	}
	return &c
}

func orText(field *string, fallback string) {
	if *field == "" {
		*field = fallback
	}
}

// Refuses says why nothing in the namespace may be written; empty means that it may. Objects without a namespace have an
// empty one.
func (r Registration) Refuses(namespace string) string {
	switch {
	case len(r.Namespaces) == 0, namespace == "" && r.ClusterResources:
		return ""
	case namespace == "":
		return fmt.Sprintf("Secret %s lets nothing be written that is in no namespace, as it names namespaces; clusterResources: \"true\" lifts that", r.Secret)
	}
	for _, n := range r.Namespaces {
		if n == namespace {
			return ""
		}
	}
	return fmt.Sprintf("Secret %s does not have %s among its namespaces", r.Secret, namespace)
}
