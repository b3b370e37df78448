package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// manifests reads the documents of one file, policies.yaml.
func manifests(t testing.TB, text string) []*manifest.Object {
	t.Helper()
	units := manifest.Read(fstest.MapFS{"policies.yaml": {Data: []byte(text)}}, manifest.Options{})
	objects, _, findings := manifest.Settle(units, manifest.NewScope(nil, nil), "default")
	for _, u := range units {
		findings = append(findings, u.Findings...)
	}
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	return objects
}

const (
	anyDeployment = "{apiVersion: apps/v1, kind: Deployment}"
	labelledWeb   = "{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {app: web}}}"
	namedWeb      = "{apiVersion: apps/v1, kind: Deployment, name: web}"
)

// policies writes one policy a line: "pp b 5 Always SELECTORS" or "cpp ..."; - stands for the default.
func policies(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 5)
		if len(f) < 5 {
			continue
		}
		kind := map[string]string{"pp": KindPropagationPolicy, "cpp": KindClusterPropagationPolicy}[f[0]]
		fmt.Fprintf(&b, "---\napiVersion: policy.karmada.io/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec:\n  resourceSelectors: [%s]\n", kind, f[1], f[4])
		if f[2] != "-" {
			fmt.Fprintf(&b, "  priority: %s\n", f[2])
		}
		if f[3] != "-" {
			fmt.Fprintf(&b, "  preemption: %s\n", f[3])
		}
	}
	return b.String()
}

func compile(t testing.TB, text string) *Set {
	t.Helper()
	s, findings := Compile(manifests(t, text))
	for _, f := range findings {
		if f.Severity == render.Error {
			t.Fatal(f)
		}
	}
	return s
}

var (
	web         = Template{ID: api.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default", Name: "web"}, Labels: map[string]string{"app": "web"}}
	clusterRole = Template{ID: api.ID{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Name: "web"}}
)

// holder reads "pp a", "cpp a" or "".
func holder(text string) Claim {
	kind, name, _ := strings.Cut(text, " ")
	switch kind {
	case "pp":
		return Claim{KindPropagationPolicy, "default", name}
	case "cpp":
		return Claim{KindClusterPropagationPolicy, "", name}
	}
	return Claim{}
}

func TestChoose(t *testing.T) {
	for _, test := range []struct {
		name, policies, held, want string
		// message and passed are pieces of what is said of the choice and of the others.
		message, passed string
	}{
		{"nobody", "pp a - - {apiVersion: v1, kind: ConfigMap}", "", "", "no policy selects it", ""},
		{"other version", "pp a - - {apiVersion: apps/v1beta1, kind: Deployment}", "", "", "no policy selects it", ""},
		{"priority beats precision", "pp a - - " + namedWeb + "\npp b 5 - " + anyDeployment, "", "pp b", "selects it by kind", "PropagationPolicy default/a: priority 0, the chosen has 5"},
		{"negative priority", "pp a -1 - " + namedWeb + "\npp b - - " + anyDeployment, "", "pp b", "", "priority -1, the chosen has 0"},
		{"name beats label", "pp a - - " + labelledWeb + "\npp b - - " + namedWeb, "", "pp b", "selects it by name", "selects it by labels, the chosen by name"},
		{"label beats kind", "pp a - - " + anyDeployment + "\npp b - - " + labelledWeb, "", "pp b", "", "selects it by kind, the chosen by labels"},
		{"an empty label selector is a label selector", "pp a - - " + anyDeployment + "\npp b - - {apiVersion: apps/v1, kind: Deployment, labelSelector: {}}", "", "pp b", "selects it by labels", ""},
		{"the best selector counts", "pp a - - " + labelledWeb + "\npp b - - " + anyDeployment + ", " + namedWeb, "", "pp b", "", ""},
		{"name decides ties", "pp b - - " + namedWeb + "\npp a-1 - - " + namedWeb + "\npp a.b - - " + namedWeb, "", "pp a-1", "", "its name comes later"},
		{"namespaced before cluster", "cpp a 100 - " + namedWeb + "\npp b - - " + anyDeployment, "", "pp b", "", "a PropagationPolicy comes before every ClusterPropagationPolicy"},
		{"cluster if there is no other", "cpp a - - {apiVersion: apps/v1, kind: Deployment, namespace: default}\ncpp b 9 - {apiVersion: apps/v1, kind: Deployment, namespace: prod}", "", "cpp a", "", ""},
		{"name set, labels not looked at", "pp a - - {apiVersion: apps/v1, kind: Deployment, name: web, labelSelector: {matchLabels: {app: other}}}", "", "pp a", "by name", ""},

		{"a claim sticks", "pp a 9 - " + namedWeb + "\npp b - - " + anyDeployment, "pp b", "pp b", "holds it already", "would win if the template were free, but PropagationPolicy default/b holds it; preemption: Always with a higher priority takes it over"},
		{"a claim of a cluster policy sticks", "pp a 9 - " + labelledWeb + "\ncpp b - - " + anyDeployment, "cpp b", "cpp b", "", "select it by name with preemption: Always to take it over"},
		{"holder gone", "cpp a - - " + namedWeb, "pp b", "cpp a", "selects it by name", ""},
		{"holder gone, nobody else", "", "pp b", "released", "PropagationPolicy default/b held it and is gone and no other policy selects it", ""},
		{"holder selects something else", "pp b - - {apiVersion: v1, kind: ConfigMap}", "pp b", "released", "held it and no longer selects it", ""},
		{"holder selects something else, another takes over", "pp b - - {apiVersion: v1, kind: ConfigMap}\npp c - - " + anyDeployment, "pp b", "pp c", "", ""},

		{"preempts with a higher priority", "pp a 5 Always " + namedWeb + "\npp b 4 - " + namedWeb, "pp b", "pp a preempted", "takes it over from PropagationPolicy default/b by preemption", ""},
		{"an equal priority is not enough", "pp a 5 Always " + namedWeb + "\npp b 5 - " + anyDeployment, "pp b", "pp b", "", "and its priority is not lower"},
		{"a namespaced one preempts any cluster policy", "pp a -5 Always " + namedWeb + "\ncpp b 5 Always " + namedWeb, "cpp b", "pp a preempted", "", ""},
		{"a cluster one preempts no namespaced policy", "cpp a 5 Always " + namedWeb + "\npp b - - " + anyDeployment, "pp b", "pp b", "", ""},
		{"a cluster one preempts a cluster one", "cpp a 5 Always " + namedWeb + "\ncpp b 4 - " + namedWeb, "cpp b", "cpp a preempted", "", ""},
		{"the highest ends up with it", "pp a 5 Always " + namedWeb + "\npp c 7 Always " + namedWeb + "\npp d 7 Always " + namedWeb + "\ncpp e 9 Always " + namedWeb + "\npp b - - " + namedWeb, "pp b", "pp c preempted", "", ""},
		{"never means never", "pp a 5 Never " + namedWeb + "\npp b - - " + namedWeb, "pp b", "pp b", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := compile(t, policies(test.policies))
			c := s.Choose(web, holder(test.held), Options{})
			if got := outcome(c); got != test.want {
				t.Errorf("chosen %q, want %q: %s", got, test.want, c.Message)
			}
			if !strings.Contains(c.Message, test.message) {
				t.Errorf("message %q, want %q in it", c.Message, test.message)
			}
			passed := fmt.Sprint(c.PassedOver())
			if !strings.Contains(passed, test.passed) {
				t.Errorf("passed over %s, want %q in it", passed, test.passed)
			}
			if c.Policy == nil {
				return
			}
			if s.Get(c.Policy.Claim()) != c.Policy {
				t.Errorf("Get does not find %s", c.Policy)
			}
			again := s.Choose(web, c.Policy.Claim(), Options{})
			if again.Policy != c.Policy || again.Preempted != nil {
				t.Errorf("deciding again gives %s, want %s again", outcome(again), outcome(c))
			}
		})
	}
}

func outcome(c Choice) string {
	var words []string
	if c.Policy != nil {
		words = append(words, map[string]string{KindPropagationPolicy: "pp", KindClusterPropagationPolicy: "cpp"}[c.Policy.Kind], c.Policy.Name)
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"preempted", c.Preempted != nil}, {"released", c.Released}, {"undecided", c.Undecided}, {"skipped", c.Skipped}} {
		if flag.set {
			words = append(words, flag.name)
		}
	}
	return strings.Join(words, " ")
}

func TestClusterScopedTemplatesHaveClusterPoliciesOnly(t *testing.T) {
	selector := "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole}"
	s := compile(t, policies("pp a 9 - "+selector+"\ncpp b - - "+selector+"\ncpp c 5 - {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, namespace: default}"))
	if got := outcome(s.Choose(clusterRole, Claim{}, Options{})); got != "cpp b" {
		t.Errorf("chosen %q, want cpp b", got)
	}
}

func TestAPolicyOfAnotherNamespaceSelectsNothing(t *testing.T) {
	s := compile(t, strings.Replace(policies("pp a - - "+anyDeployment), "{name: a}", "{name: a, namespace: prod}", 1))
	if got := outcome(s.Choose(web, Claim{}, Options{})); got != "" {
		t.Errorf("chosen %q, want none", got)
	}
}

func TestAClaimedByLabelKeepsPoliciesAway(t *testing.T) {
	s := compile(t, policies("pp a - - "+anyDeployment))
	marked := web
	marked.Labels = map[string]string{LabelClaimedBy: ""}
	if got := outcome(s.Choose(marked, holder("pp a"), Options{})); got != "skipped" {
		t.Errorf("chosen %q, want skipped", got)
	}
}

func TestAPolicyThatCannotBeReadKeepsWhatItHolds(t *testing.T) {
	s, findings := Compile(manifests(t, policies("pp a - Sometimes "+anyDeployment+"\npp b - - "+anyDeployment)))
	if len(findings) != 1 || findings[0].Code != "unknown-value" {
		t.Fatalf("findings %v, want one unknown-value", findings)
	}
	unreadable := Options{Unreadable: func(c Claim) bool { return c.Name == "c" }}
	for held, want := range map[string]string{"pp a": "undecided", "pp b": "pp b", "pp c": "undecided", "pp d": "pp b", "": "pp b"} {
		if got := outcome(s.Choose(web, holder(held), unreadable)); got != want {
			t.Errorf("held by %q: chosen %q, want %q", held, got, want)
		}
	}
}

func TestMissingDependentOverridesAreNamed(t *testing.T) {
	s := compile(t, policies("pp a - - "+anyDeployment)+"  dependentOverrides: [x, z, w]\n")
	exists := Options{OverrideExists: func(namespace, name string) bool { return namespace == "default" && name == "z" }}
	c := s.Choose(web, Claim{}, exists)
	if diff := cmp.Diff([]string{"x", "w"}, c.Waiting); diff != "" {
		t.Error(diff)
	}
	if !strings.HasSuffix(c.Message, "waiting for dependent overrides x, w") || outcome(c) != "pp a" {
		t.Errorf("chosen %q: %s, want pp a that waits", outcome(c), c.Message)
	}
	if c := s.Choose(web, Claim{}, Options{}); c.Waiting != nil {
		t.Errorf("waits for %q, though nobody says what is missing", c.Waiting)
	}
}

func TestTiesOfEqualSelectorsAreNamed(t *testing.T) {
	_, findings := Compile(manifests(t, policies("pp b - - "+namedWeb+"\npp a - - "+namedWeb+"\ncpp c - - "+namedWeb+"\npp d 1 - "+namedWeb)))
	if len(findings) != 1 {
		t.Fatalf("findings %v, want one", findings)
	}
	want := `policies.yaml:6: warning: policy-tie: PropagationPolicy default/b: spec.resourceSelectors[0]: PropagationPolicy default/a has the same selector and the same priority 0, so the name decides and a wins, whichever is older; give one of them a higher spec.priority`
	if got := findings[0].String(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestTiesOfDifferentSelectorsAreFoundByTemplates(t *testing.T) {
	const labelledTier = "{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {tier: front}}}"
	template := func(name, tier string) Template {
		return Template{ID: api.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default", Name: name}, Labels: map[string]string{"app": "web", "tier": tier}}
	}
	for _, tt := range []struct{ name, policies, want string }{
		{"a tie", "pp b - - " + labelledWeb + "\npp a - - " + labelledTier,
			"policies.yaml:6: warning: policy-tie: PropagationPolicy default/b: spec.resourceSelectors: PropagationPolicy default/a selects Deployment default/one and 1 more as precisely and with the same priority 0, so the name decides and a wins, whichever is older; give one of them a higher spec.priority"},
		{"another priority", "pp b - - " + labelledWeb + "\npp a 1 - " + labelledTier, ""},
		{"another precision", "pp b - - " + labelledWeb + "\npp a - - " + anyDeployment, ""},
		{"another kind", "pp b - - " + labelledWeb + "\ncpp a - - " + labelledTier, ""},
		{"the same selector is told without templates", "pp b - - " + labelledWeb + "\npp a - - " + labelledWeb, ""},
		{"a tie behind the winner", "pp b - - " + labelledWeb + "\npp a - - " + labelledTier + "\npp c 1 - " + anyDeployment, ""},
	} {
		s, _ := Compile(manifests(t, policies(tt.policies)))
		got := s.Tied([]Template{template("two", "front"), template("one", "front"), template("three", "back")})
		if (tt.want == "") != (len(got) == 0) || len(got) > 0 && (len(got) > 1 || got[0].String() != tt.want) {
			t.Errorf("%s: got %v\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestWhoWouldWinIsTold(t *testing.T) {
	for _, tt := range []struct{ name, policies, held, want string }{
		{"a higher priority", "pp a - - " + namedWeb + "\npp b 5 - " + namedWeb, "a", "b would win if the template were free, but PropagationPolicy default/a holds it; preemption: Always with a higher priority takes it over"},
		{"more precise", "pp a - - " + anyDeployment + "\npp b - - " + labelledWeb, "a", "b would win if the template were free, but PropagationPolicy default/a holds it; select it by name with preemption: Always to take it over"},
		{"it won", "pp a - - " + namedWeb + "\npp b 5 - " + namedWeb, "b", ""},
		{"it takes it over", "pp a - - " + namedWeb + "\npp b 5 Always " + namedWeb, "a", ""},
		{"free", "pp a - - " + namedWeb + "\npp b 5 - " + namedWeb, "", ""},
		{"nobody", "pp a - - {apiVersion: v1, kind: Secret}", "", ""},
	} {
		s := compile(t, policies(tt.policies))
		held := Claim{}
		if tt.held != "" {
			held = Claim{Kind: KindPropagationPolicy, Namespace: "default", Name: tt.held}
		}
		c := s.Choose(web, held, Options{})
		got := ""
		if p, why := c.Outranked(); p != nil {
			got = p.Name + " " + why
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestTheHashTellsSetsApart(t *testing.T) {
	base := policies("pp a - - " + namedWeb + "\ncpp b - - " + anyDeployment)
	seen := map[string]string{}
	for _, text := range []string{
		base,
		policies("pp a - - " + namedWeb),
		policies("pp a 1 - " + namedWeb + "\ncpp b - - " + anyDeployment),
		policies("pp c - - " + namedWeb + "\ncpp b - - " + anyDeployment),
		policies("pp a - Sometimes " + namedWeb + "\ncpp b - - " + anyDeployment),
	} {
		s, _ := Compile(manifests(t, text))
		if other, ok := seen[s.Hash()]; ok {
			t.Errorf("one hash for\n%s\nand\n%s", other, text)
		}
		seen[s.Hash()] = text
	}
	again, _ := Compile(manifests(t, "# comment\n"+base))
	if _, ok := seen[again.Hash()]; !ok {
		t.Error("a comment changes the hash")
	}
}

// slowMatch is what Index.Match must agree with: one selector after the other, by the book.
func slowMatch(s policyv1alpha1.ResourceSelector, id api.ID, set map[string]string) Precision {
	if s.APIVersion != id.APIVersion() || s.Kind != id.Kind || s.Namespace != "" && s.Namespace != id.Namespace {
		return NoMatch
	}
	if s.Name != "" {
		if s.Name == id.Name {
			return MatchName
		}
		return NoMatch
	}
	if s.LabelSelector == nil {
		return MatchKind
	}
	selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
	if err == nil && selector.Matches(labels.Set(set)) {
		return MatchLabels
	}
	return NoMatch
}

func TestTheIndexFindsWhatASearchFinds(t *testing.T) {
	few := func(values ...string) *rapid.Generator[string] { return rapid.SampledFrom(values) }
	requirement := rapid.Custom(func(t *rapid.T) metav1.LabelSelectorRequirement {
		r := metav1.LabelSelectorRequirement{
			Key:      few("app", "tier", "env").Draw(t, "key"),
			Operator: metav1.LabelSelectorOperator(few("In", "NotIn", "Exists", "DoesNotExist", "Within").Draw(t, "operator")),
		}
		if r.Operator == "In" || r.Operator == "NotIn" {
			r.Values = rapid.SliceOfN(few("a", "b", "c"), 0, 3).Draw(t, "values")
		}
		return r
	})
	selector := rapid.Custom(func(t *rapid.T) policyv1alpha1.ResourceSelector {
		s := policyv1alpha1.ResourceSelector{
			APIVersion: few("apps/v1", "v1").Draw(t, "apiVersion"), Kind: few("Deployment", "ConfigMap").Draw(t, "kind"),
			Namespace: few("", "default", "prod").Draw(t, "namespace"), Name: few("", "", "web").Draw(t, "name"),
		}
		if rapid.Bool().Draw(t, "labelled") {
			s.LabelSelector = &metav1.LabelSelector{
				MatchLabels:      rapid.MapOfN(few("app", "tier"), few("a", "b"), 0, 2).Draw(t, "matchLabels"),
				MatchExpressions: rapid.SliceOfN(requirement, 0, 2).Draw(t, "matchExpressions"),
			}
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		selections := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Selection {
			return Selection{few("", "default", "prod").Draw(t, "owner"), rapid.SliceOfN(selector, 0, 3).Draw(t, "selectors")}
		}), 0, 6).Draw(t, "selections")
		id := api.ID{Group: few("apps", "").Draw(t, "group"), Version: "v1", Kind: few("Deployment", "ConfigMap").Draw(t, "kind"),
			Namespace: few("", "default").Draw(t, "namespace"), Name: few("web", "db").Draw(t, "name")}
		set := rapid.MapOfN(few("app", "tier", "env"), few("a", "b", "c"), 0, 3).Draw(t, "labels")

		var want []Match
		for i, selection := range selections {
			best := NoMatch
			if len(selection.Selectors) == 0 && (selection.Namespace == "" || selection.Namespace == id.Namespace) {
				best = MatchKind
			}
			for _, s := range selection.Selectors {
				best = max(best, slowMatch(s, id, set))
			}
			if best != NoMatch {
				want = append(want, Match{i, best})
			}
		}
		got := NewIndex(selections).Match(id, set)
		if !slices.Equal(got, want) {
			t.Fatalf("Match = %v, want %v", got, want)
		}
	})
}

// BenchmarkChoose must not cost more with more policies that have nothing to do with the template.
func BenchmarkChoose(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			s := compile(b, labelPolicies(n))
			b.ReportAllocs()
			for b.Loop() {
				if c := s.Choose(web, Claim{}, Options{}); c.Policy == nil {
					b.Fatal(c.Message)
				}
			}
		})
	}
}

// BenchmarkSelectors compiles one policy with many selectors, and chooses it. Neither may cost more than its
// selectors: of-100 is the cost of one, against that with 100 of them.
func BenchmarkSelectors(b *testing.B) {
	var compiling, choosing time.Duration
	for _, n := range []int{100, 10000} {
		selectors := make([]string, n)
		for i := range selectors {
			selectors[i] = fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, name: app-%d}", i)
		}
		selectors[n/2] = namedWeb
		objects := manifests(b, policies("pp a - - "+strings.Join(selectors, ", ")))
		report := func(b *testing.B, least *time.Duration, by int) {
			each := b.Elapsed() / time.Duration(b.N)
			if *least == 0 {
				*least = each
			}
			b.ReportMetric(float64(each)/float64(*least)/float64(by), "of-100")
		}
		b.Run(fmt.Sprintf("compile/selectors=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Compile(objects)
			}
			report(b, &compiling, n/100)
		})
		b.Run(fmt.Sprintf("choose/selectors=%d", n), func(b *testing.B) {
			s, _ := Compile(objects)
			b.ReportAllocs()
			for b.Loop() {
				if c := s.Choose(web, Claim{}, Options{}); c.Policy == nil {
					b.Fatal(c.Message)
				}
			}
			report(b, &choosing, 1)
		})
	}
}

// BenchmarkSearch is the peer: every policy is looked at, its selectors compiled as it comes.
func BenchmarkSearch(b *testing.B) {
	s := compile(b, labelPolicies(1000))
	b.ReportAllocs()
	for b.Loop() {
		found := 0
		for _, p := range s.Policies() {
			for _, selector := range p.Spec.ResourceSelectors {
				if slowMatch(selector, web.ID, web.Labels) != NoMatch {
					found++
				}
			}
		}
		if found != 1 {
			b.Fatalf("found %d, want 1", found)
		}
	}
}

// labelPolicies are n policies of one namespace that select Deployments by label, one of them web.
func labelPolicies(n int) string {
	var lines strings.Builder
	for i := range n {
		app := fmt.Sprintf("app-%d", i)
		if i == n/2 {
			app = "web"
		}
		fmt.Fprintf(&lines, "pp p%d - - {apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {app: %s}}}\n", i, app)
	}
	return policies(lines.String())
}
