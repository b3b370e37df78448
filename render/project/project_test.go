package project_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/render/project"
)

func compile(t testing.TB, projects ...project.Limits) *project.Set {
	t.Helper()
	s, err := project.Compile(projects)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLongestFolderHasTheFile(t *testing.T) {
	s := compile(t,
		project.Limits{Name: "shop", Paths: []string{"teams/shop", "extra"}, Namespaces: []string{"shop"}},
		project.Limits{Name: "payments", Paths: []string{"teams/shop/payments", "teams/payments"}, Namespaces: []string{"pay"}},
		project.Limits{Name: "all-teams", Paths: []string{"teams"}, Namespaces: []string{"*"}},
	)
	for _, c := range []struct{ file, want string }{
		{"teams/shop/web.yaml", "shop"},
		{"teams/shop", "shop"},
		{"teams/shop/deep/er/web.yaml", "shop"},
		{"teams/shop/payments/web.yaml", "payments"},
		{"extra/web.yaml", "shop"},
		{"teams/other/web.yaml", "all-teams"},
		{"teams/shop-two/web.yaml", "all-teams"},   // a longer name is another folder
		{"teams/Shop/web.yaml", "all-teams"},       // and so is another case
		{"teams/sho\u0440/web.yaml", "all-teams"},  // or a letter that looks the same
		{"teams/shop\u200b/web.yaml", "all-teams"}, // or one that cannot be seen
		{"teams/shop/../payments/web.yaml", "payments"},
		{"teams.yaml", ""},
		{"Teams/shop/web.yaml", ""},
		{"../teams/shop/web.yaml", ""},
		{"web.yaml", ""},
		{".", ""},
	} {
		if got := s.Of(c.file).Name(); got != c.want {
			t.Errorf("Of(%q) = %q, want %q", c.file, got, c.want)
		}
		if nobody := s.Of(c.file).Refuses(api.ID{Kind: "ConfigMap", Namespace: "pay"}); c.want == "" && (nobody == nil || nobody.Code != "project-none") {
			t.Errorf("%q is in no project and may have a ConfigMap: %v", c.file, nobody)
		}
	}
	if s := compile(t); s != nil || s.Of("web.yaml") != nil || s.Of("web.yaml").Refuses(api.ID{Kind: "Node"}) != nil || !s.Of("a").AllowsMember("m", nil) || !s.Holds("a", "b") {
		t.Error("without projects something is refused")
	}
}

func TestKustomizationsTakeChargeBelowTheirProjectAlone(t *testing.T) {
	s := compile(t,
		project.Limits{Name: "shop", Paths: []string{"teams/shop"}, Namespaces: []string{"shop"}},
		project.Limits{Name: "payments", Paths: []string{"teams/payments", "teams/shop/pay"}, Namespaces: []string{"pay"}},
		project.Limits{Name: "teams", Paths: []string{"teams"}, Namespaces: []string{"*"}},
	)
	for _, c := range []struct {
		dir, other string
		want       bool
	}{
		{"teams/shop", "teams/shop/base", true},
		{"teams/shop/overlay", "teams/shop/base", true},
		{"teams/shop", "bases/web", true},
		{"teams/shop", "teams/payments", false},
		{"teams/shop", "teams/base", false},
		{"teams/shop/overlay", "teams/shop/pay", true}, // who has a folder has what is below it
		{"teams/shop", "teams/shop-two", false},
		{"teams", "teams/payments/base", true},
		{"bases/web", "teams/shop", false},
		{"bases/web", "bases/common", true},
	} {
		if got := s.Holds(c.dir, c.other); got != c.want {
			t.Errorf("Holds(%s, %s) = %t, want %t", c.dir, c.other, got, c.want)
		}
	}
	if s := compile(t, project.Limits{Name: "all", Paths: []string{"."}, Namespaces: []string{"*"}}, project.Limits{Name: "shop", Paths: []string{"shop"}, Namespaces: []string{"shop"}}); !s.Holds("base", "shop") || s.Holds("shop", "base") {
		t.Error("the project of the whole source has not what is below, or another has it")
	}
}

func TestRefusals(t *testing.T) {
	s := compile(t,
		project.Limits{Name: "shop", Paths: []string{"shop"}, Namespaces: []string{"shop", "shop-*"}},
		project.Limits{Name: "few", Paths: []string{"few"}, Namespaces: []string{"*"}, Kinds: []string{"ConfigMap", "*.apps", "Ingress.networking.k8s.io"}},
		project.Limits{Name: "wide", Paths: []string{"wide"}, Namespaces: []string{"wide"}, ClusterScoped: []string{"Namespace", "ClusterRole.rbac.authorization.k8s.io"}},
		project.Limits{Name: "ops", Paths: []string{"ops"}, Namespaces: []string{"*"}, ClusterScoped: []string{"*"}},
	)
	for _, c := range []struct{ project, object, want string }{
		{"shop", "v1 ConfigMap shop/a", ""},
		{"shop", "apps/v1 Deployment shop-eu/a", ""},
		{"shop", "v1 ConfigMap shopping/a", "project-namespace metadata.namespace"},
		{"shop", "v1 ConfigMap Shop/a", "project-namespace metadata.namespace"},
		{"shop", "v1 ConfigMap default/shop", "project-namespace metadata.namespace"},
		{"shop", "v1 Namespace shop", "project-cluster-scoped kind"},
		{"shop", "rbac.authorization.k8s.io/v1 ClusterRole a", "project-cluster-scoped kind"},
		{"shop", "policy.karmada.io/v1alpha1 ClusterPropagationPolicy a", "project-cluster-scoped kind"},
		{"shop", "policy.karmada.io/v1alpha1 PropagationPolicy shop/a", ""},
		{"few", "v1 ConfigMap any/a", ""},
		{"few", "apps/v1 Deployment any/a", ""},
		{"few", "v1 Secret any/a", "project-kind kind"},
		{"few", "other/v1 ConfigMap any/a", "project-kind kind"}, // the group counts
		{"few", "networking.k8s.io/v1 Ingress any/a", ""},
		{"few", "extensions/v1beta1 Ingress any/a", "project-kind kind"},
		{"wide", "v1 Namespace wide", ""},
		{"wide", "v1 Namespace kube-system", "project-namespace metadata.name"},
		{"wide", "rbac.authorization.k8s.io/v1 ClusterRole any", ""},
		{"wide", "rbac.authorization.k8s.io/v1 ClusterRoleBinding any", "project-cluster-scoped kind"},
		{"ops", "v1 Namespace any", ""},
		{"ops", "v1 Secret any/a", ""},
	} {
		version, rest, _ := strings.Cut(c.object, " ")
		kind, name, _ := strings.Cut(rest, " ")
		id := api.ID{Kind: kind, Name: name}
		id.Group, id.Version = api.SplitAPIVersion(version)
		if namespace, name, ok := strings.Cut(name, "/"); ok {
			id.Namespace, id.Name = namespace, name
		}
		got := ""
		if r := s.Of(c.project + "/x.yaml").Refuses(id); r != nil {
			got = r.Code + " " + strings.Join(r.Field, ".")
			if !strings.Contains(r.Message, c.project) {
				t.Errorf("%s: %s: the message does not name the project: %s", c.project, c.object, r.Message)
			}
		}
		if got != c.want {
			t.Errorf("%s: Refuses(%s) = %q, want %q", c.project, c.object, got, c.want)
		}
	}
}

func TestMembers(t *testing.T) {
	s := compile(t,
		project.Limits{Name: "any", Paths: []string{"any"}, Namespaces: []string{"*"}},
		project.Limits{Name: "named", Paths: []string{"named"}, Namespaces: []string{"*"}, Members: []string{"m1", "eu-*"}},
		project.Limits{Name: "labelled", Paths: []string{"labelled"}, Namespaces: []string{"*"}, MemberSelector: "env=prod,tier notin (gold)"},
		project.Limits{Name: "both", Paths: []string{"both"}, Namespaces: []string{"*"}, Members: []string{"m*"}, MemberSelector: "env=prod"},
	)
	prod := map[string]string{"env": "prod"}
	for _, c := range []struct {
		project, member string
		labels          map[string]string
		want            bool
	}{
		{"any", "m9", nil, true},
		{"named", "m1", nil, true}, {"named", "m11", nil, false}, {"named", "eu-west", nil, true}, {"named", "eu", nil, false},
		{"labelled", "m1", prod, true}, {"labelled", "m1", nil, false}, {"labelled", "m1", map[string]string{"env": "prod", "tier": "gold"}, false},
		{"both", "m1", prod, true}, {"both", "m1", nil, false}, {"both", "x1", prod, false},
		{"nowhere", "m1", prod, false},
	} {
		if got := s.Of(c.project+"/x.yaml").AllowsMember(c.member, c.labels); got != c.want {
			t.Errorf("%s: AllowsMember(%s, %v) = %t, want %t", c.project, c.member, c.labels, got, c.want)
		}
	}
}

func TestPoliciesReachTheirOwnProject(t *testing.T) {
	s := compile(t,
		project.Limits{Name: "a", Paths: []string{"a"}, Namespaces: []string{"shared"}},
		project.Limits{Name: "b", Paths: []string{"b"}, Namespaces: []string{"shared"}},
	)
	a, b := s.Of("a/p.yaml"), s.Of("b/web.yaml")
	if !a.Reaches("shared", a) || a.Reaches("shared", b) || !a.Reaches("", b) {
		t.Error("a policy in a namespace reaches its own project alone, and a cluster-scoped one reaches all")
	}
	if none := (*project.Project)(nil); !none.Reaches("shared", none) {
		t.Error("without projects a policy reaches nothing")
	}
}

// Each mistake is named by its field, and all of them at once.
func TestMistakesInTheConfiguration(t *testing.T) {
	good := project.Limits{Name: "shop", Paths: []string{"shop"}, Namespaces: []string{"shop"}}
	for _, c := range []struct {
		name   string
		change func(*project.Limits)
		want   string
	}{
		{"no name", func(l *project.Limits) { l.Name = "" }, `projects[0].name: "" is no name`},
		{"no paths", func(l *project.Limits) { l.Paths = nil }, "projects[0].paths: is missing"},
		{"absolute", func(l *project.Limits) { l.Paths = []string{"/shop"} }, `projects[0].paths[0]: "/shop" is no folder of the source`},
		{"upwards", func(l *project.Limits) { l.Paths = []string{"ok", "../shop"} }, `projects[0].paths[1]: "../shop" is no folder`},
		{"slash at the end", func(l *project.Limits) { l.Paths = []string{"shop/"} }, `"shop/" is no folder`},
		{"pattern", func(l *project.Limits) { l.Paths = []string{"teams/*"} }, `"teams/*" is a pattern`},
		{"twice", func(l *project.Limits) { l.Paths = []string{"shop", "shop"} }, "projects[0].paths[1]: shop is of project shop already"},
		{"nothing allowed", func(l *project.Limits) { l.Namespaces = nil }, "projects[0].namespaces: is missing"},
		{"bad namespace", func(l *project.Limits) { l.Namespaces = []string{"Shop"} }, `projects[0].namespaces[0]: "Shop" is neither`},
		{"bad member", func(l *project.Limits) { l.Members = []string{""} }, `projects[0].members[0]: "" is neither`},
		{"bad kind", func(l *project.Limits) { l.Kinds = []string{"apps/v1"} }, `projects[0].kinds[0]: "apps/v1" is no kind`},
		{"half a kind", func(l *project.Limits) { l.ClusterScoped = []string{"Cluster*"} }, `projects[0].clusterScoped[0]: "Cluster*" is no kind`},
		{"bad group", func(l *project.Limits) { l.Kinds = []string{"Deployment."} }, `"Deployment." is no kind`},
		{"an account without a namespace", func(l *project.Limits) { l.ServiceAccount = "deployer" }, `projects[0].serviceAccount: "deployer" is no service account; write namespace/name`},
		{"an account that is two", func(l *project.Limits) { l.ServiceAccount = "shop/a:b" }, `projects[0].serviceAccount: "shop/a:b" is no`},
		{"bad selector", func(l *project.Limits) { l.MemberSelector = "a in" }, "projects[0].memberSelector: "},
	} {
		l := good
		c.change(&l)
		if _, err := project.Compile([]project.Limits{l}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	_, err := project.Compile([]project.Limits{good, good, {Name: "X"}})
	for _, want := range []string{"projects[1].name: shop is there twice", "projects[1].paths[0]: shop is of project shop already", "projects[2].name", "projects[2].paths", "projects[2].namespaces"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwants %s", err, want)
		}
	}
}

// Patterns agree with regular expressions.
func TestPatterns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab*]{1,6}`).Draw(t, "pattern")
		name := rapid.StringMatching(`[ab]{0,8}`).Draw(t, "name")
		s, err := project.Compile([]project.Limits{{Name: "p", Paths: []string{"."}, Namespaces: []string{pattern}}})
		if err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile("^" + strings.ReplaceAll(pattern, "*", ".*") + "$").MatchString(name)
		if name == "" {
			return
		}
		if got := s.Of("x").Refuses(api.ID{Kind: "ConfigMap", Namespace: name}) == nil; got != want {
			t.Fatalf("%q fits %q: %t, want %t", name, pattern, got, want)
		}
	})
}

// Whatever a file is called, it is in a folder of its project in the eyes of who reads paths element by element.
func FuzzFolders(f *testing.F) {
	for _, seed := range []string{"teams/shop/a.yaml", "teams/shop/../x", "/teams/shop/a", "teams//shop", "..", "", "teams/shopping", "teams/shop/./a"} {
		f.Add(seed)
	}
	s := compile(f, project.Limits{Name: "shop", Paths: []string{"teams/shop"}, Namespaces: []string{"shop"}})
	f.Fuzz(func(t *testing.T, file string) {
		if s.Of(file).Name() != "shop" {
			return
		}
		var stack []string
		for _, e := range strings.Split(file, "/") {
			switch {
			case e == "" || e == ".":
			case e == ".." && len(stack) > 0 && stack[len(stack)-1] != "..":
				stack = stack[:len(stack)-1]
			default:
				stack = append(stack, e)
			}
		}
		if len(stack) < 2 || stack[0] != "teams" || stack[1] != "shop" || strings.HasPrefix(file, "/") {
			t.Errorf("%q is of project shop", file)
		}
	})
}

func TestServiceAccounts(t *testing.T) {
	limits := func(name, account string) project.Limits {
		return project.Limits{Name: name, Paths: []string{name}, Namespaces: []string{name}, ServiceAccount: account}
	}
	s, err := project.Compile([]project.Limits{limits("b", "b/d"), limits("none", ""), limits("a", "a/d.x"), limits("c", "b/d")})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.ServiceAccounts(), " "); got != "a/d.x b/d" {
		t.Errorf("ServiceAccounts() = %s", got)
	}
	for file, want := range map[string]string{"a/x.yaml": "a/d.x", "none/x.yaml": "", "elsewhere.yaml": ""} {
		if got := s.Of(file).ServiceAccount(); got != want {
			t.Errorf("Of(%s).ServiceAccount() = %q, want %q", file, got, want)
		}
	}
	var none *project.Set
	if none.ServiceAccounts() != nil || none.Of("x").ServiceAccount() != "" {
		t.Error("there are accounts where there are no projects")
	}
}

func TestParseAccount(t *testing.T) {
	for text, good := range map[string]bool{
		"a/b": true, "team-a/deployer.x": true,
		"": false, "a": false, "/": false, "a/": false, "/b": false, "a/b/c": false, "a:b/c": false, "a/b:c": false, "A/b": false, "a.b/c": false,
		"a/b\r\nX-Y: z": false, "a/*": false,
	} {
		namespace, name, err := project.ParseAccount(text)
		if (err == nil) != good || good && namespace+"/"+name != text {
			t.Errorf("ParseAccount(%q) = %q, %q, %v", text, namespace, name, err)
		}
	}
}
