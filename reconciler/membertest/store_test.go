package membertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"
)

func TestACollectionKnowsWhatItForgot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCollection(nil)
		n := rapid.IntRange(0, 5*history).Draw(t, "events")
		step := rapid.Uint64Range(1, 3).Draw(t, "step") // other collections use versions too
		for i := range n {
			c.record(event{watch.Added, &object{version: uint64(i+1) * step}, nil})
		}
		from := rapid.Uint64Range(0, uint64(n+1)*step).Draw(t, "from")
		events, ok := c.after(from)
		all := n - min(n, int(from/step)) // those younger than from
		if ok && len(events) != all || !ok && len(events) == all && all > 0 && from+1 >= c.events[0].object.version {
			t.Fatalf("after(%d) of %d events gives %d events and %v, want %d", from, n, len(events), ok, all)
		}
		if kept := min(n, history); all <= kept && !ok {
			t.Fatalf("after(%d) of %d events is forgotten: the last %d must not be", from, n, kept)
		}
	})
}

// A client that replays the history has what a list has, and the indexes say what the objects say.
func TestHistoryAndIndexesAgreeWithTheObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(Options{Name: "m", Token: "t"})
		defer s.Close()
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		spaces := rapid.SampledFrom([]string{"default", "n"})
		send := func(method, target, content, body string) {
			r := httptest.NewRequest(method, target, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer t")
			r.Header.Set("Content-Type", content)
			s.ServeHTTP(httptest.NewRecorder(), r)
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			ns, name, owner := spaces.Draw(t, "namespace"), names.Draw(t, "name"), names.Draw(t, "owner")
			at := "/api/v1/namespaces/" + ns + "/configmaps/" + name
			var owners, finalizers string
			if o := s.configMaps.objects[key{ns, owner}]; o != nil {
				owners = fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q}`, owner, o.GetUID())
			}
			if rapid.Bool().Draw(t, "held") {
				finalizers = `"x.y/z"`
			}
			policy := rapid.SampledFrom([]string{"Background", "Foreground", "Orphan"}).Draw(t, "policy")
			switch rapid.SampledFrom([]string{"apply", "apply", "delete", "release", "namespace", "unnamespace"}).Draw(t, "step") {
			case "apply":
				send(http.MethodPatch, at+"?fieldManager=x&force=true", "application/apply-patch+yaml", fmt.Sprintf(
					`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"ownerReferences":[%s],"finalizers":[%s]}}`, name, owners, finalizers))
			case "delete":
				send(http.MethodDelete, at+"?propagationPolicy="+policy, "", "")
			case "release":
				send(http.MethodPatch, at, "application/merge-patch+json", `{"metadata":{"finalizers":null}}`)
			case "namespace":
				send(http.MethodPost, "/api/v1/namespaces", "application/json", `{"metadata":{"name":"n"}}`)
			case "unnamespace":
				send(http.MethodDelete, "/api/v1/namespaces/n", "", "")
			}
		}
		uids, counts := 0, make(map[string]int)
		for _, c := range s.collections() {
			replayed := make(map[key]*object)
			version := uint64(0)
			for _, e := range c.events {
				if e.object.version <= version || (e.kind == watch.Added) != (replayed[e.object.key] == nil) {
					t.Fatalf("event %s of %v at %d after %d", e.kind, e.object.key, e.object.version, version)
				}
				version = e.object.version
				if replayed[e.object.key] = e.object; e.kind == watch.Deleted {
					delete(replayed, e.object.key)
				}
			}
			for k, o := range c.objects {
				if o.version > c.floor && replayed[k] != o || s.uids[o.GetUID()] != (ref{c, k}) {
					t.Fatalf("%v is not what the history and the index say", k)
				}
				for _, r := range o.GetOwnerReferences() {
					_, known := s.owned[r.UID][ref{c, k}]
					if owns := s.owns(r.UID); owns && !known || !owns && o.GetDeletionTimestamp() == nil {
						t.Fatalf("%v has an owner that does not know it, or is gone", k)
					}
				}
				if ns := s.namespaces.objects[key{name: k.namespace}]; k.namespace != "" && ns == nil {
					t.Fatalf("%v is in no namespace", k)
				}
				uids++
				counts[k.namespace]++
			}
		}
		for ns, n := range s.inNamespace {
			if counts[ns] != n {
				t.Fatalf("namespace %q has %d objects, and %d by the index", ns, counts[ns], n)
			}
		}
		if len(s.uids) != uids || len(s.changes) != 0 {
			t.Fatalf("%d objects, %d in the index; %d changes not looked at", uids, len(s.uids), len(s.changes))
		}
	})
}

// Bodies and paths of all sorts: whatever is sent, the server answers it, keeps what it stored as it was, and goes on.
func FuzzNoRequestBreaksAServer(f *testing.F) {
	const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","labels":{"a":"b"}},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},` +
		`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]}]}}}}`
	const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"as.x.y"},"spec":{"group":"x.y","scope":"Namespaced","names":{"plural":"as","kind":"A"},` +
		`"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","default":1}}}}}}}]}}`
	for _, seed := range [][4]string{
		{http.MethodPost, "/apis/apps/v1/namespaces/default/deployments", "application/json", deployment},
		{http.MethodPut, "/apis/apps/v1/namespaces/default/deployments/seed", "application/json", strings.ReplaceAll(deployment, `"d"`, `"seed"`)},
		{http.MethodPatch, "/apis/apps/v1/namespaces/default/deployments/seed?fieldManager=x&force=true", "application/apply-patch+yaml", strings.ReplaceAll(deployment, `"d"`, `"seed"`)},
		{http.MethodPatch, "/apis/apps/v1/namespaces/default/deployments/seed", "application/merge-patch+json", `{"metadata":null,"spec":{"template":7}}`},
		{http.MethodPatch, "/apis/x.y/v1/namespaces/default/as/seed", "application/json-patch+json", `[{"op":"remove","path":"/metadata"}]`},
		{http.MethodPatch, "/apis/x.y/v1/namespaces/default/as/new?fieldManager=x", "application/apply-patch+yaml", `{apiVersion: x.y/v1, kind: A, metadata: {name: new}, spec: [1]}`},
		{http.MethodPatch, "/apis/apps/v1/namespaces/default/deployments/seed/scale", "application/merge-patch+json", `{"spec":{"replicas":"x"}}`},
		{http.MethodPatch, "/apis/apps/v1/namespaces/default/deployments/seed", "application/strategic-merge-patch+json", `{"spec":{"template":{"spec":{"containers":[{"$patch":"replace"}]}}}}`},
		{http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", strings.ReplaceAll(definition, "as", "bs")},
		{http.MethodDelete, "/api/v1/namespaces/default/configmaps?labelSelector=a", "", ``},
		{http.MethodGet, "/apis/apps/v1/deployments?limit=1&continue=MTIvYS9i&fieldSelector=metadata.name%3Dx", "", ``},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	s := New(Options{Name: "fuzz", Token: "t"})
	f.Cleanup(s.Close)
	send := func(method, target, content, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/", strings.NewReader(body))
		if u, err := r.URL.Parse(target); err == nil {
			r.URL = u
		}
		q := r.URL.Query()
		if q.Has("watch") { // would wait
			q.Del("watch")
			r.URL.RawQuery = q.Encode()
		}
		r.Header.Set("Authorization", "Bearer t")
		r.Header.Set("Content-Type", content)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	f.Fuzz(func(t *testing.T, method, target, content, body string) {
		if !slices.Contains([]string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, method) {
			return
		}
		send(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", definition)
		send(http.MethodPost, "/apis/x.y/v1/namespaces/default/as", "application/json", `{"apiVersion":"x.y/v1","kind":"A","metadata":{"name":"seed"}}`)
		send(http.MethodPost, "/apis/apps/v1/namespaces/default/deployments", "application/json", strings.ReplaceAll(deployment, `"d"`, `"seed"`))
		w := send(method, target, content, body)
		if w.Code == 0 || w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %s: %d %s", method, target, w.Code, w.Body)
		}
		for _, c := range s.collections() {
			for k, o := range c.objects {
				wire, err := json.Marshal(o.Object)
				if err != nil || string(wire) != string(o.wire) {
					t.Fatalf("%s %s changed the stored %s %v:\n%s\n%s", method, target, c.resource.Kind, k, o.wire, wire)
				}
			}
		}
		if w := send(http.MethodGet, "/api/v1/namespaces/default", "", ""); w.Code != http.StatusOK {
			t.Fatalf("after %s %s: %d %s", method, target, w.Code, w.Body)
		}
	})
}

// benchServer is a member with n Deployments.
func benchServer(b *testing.B, n int) *Server {
	s := New(Options{Name: "bench", Token: "t"})
	b.Cleanup(s.Close)
	for i := range n {
		benchApply(b, s, i, 1)
	}
	return s
}

func benchApply(b *testing.B, s *Server, i, replicas int) {
	body := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d%d"},"spec":{"replicas":%d,"selector":{"matchLabels":{"a":"b"}},`+
		`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i:v1","ports":[{"containerPort":80}]}]}}}}`, i, replicas)
	benchSend(b, s, http.MethodPatch, fmt.Sprintf("/apis/apps/v1/namespaces/default/deployments/d%d?fieldManager=godwit", i), body)
}

func benchSend(b *testing.B, s *Server, method, target, body string) {
	b.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer t")
	r.Header.Set("Content-Type", "application/apply-patch+yaml")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code >= 300 {
		b.Fatalf("%d %s", w.Code, w.Body)
	}
}

func BenchmarkApplyNew(b *testing.B) {
	s := benchServer(b, 0)
	i := 0
	for b.Loop() {
		benchApply(b, s, i, 1)
		i++
	}
}

func BenchmarkApplyChange(b *testing.B) {
	s := benchServer(b, 1)
	i := 0
	for b.Loop() {
		i++
		benchApply(b, s, 0, i)
	}
}

func BenchmarkApplyNothing(b *testing.B) {
	s := benchServer(b, 1)
	for b.Loop() {
		benchApply(b, s, 0, 1)
	}
}

func BenchmarkList20000(b *testing.B) {
	s := benchServer(b, 20000)
	for b.Loop() {
		benchSend(b, s, http.MethodGet, "/apis/apps/v1/deployments", "")
	}
}
