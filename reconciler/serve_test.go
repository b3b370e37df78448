package reconciler

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/gitstate/store"
)

// fakeShards has all members in its share.
type fakeShards struct {
	mu     sync.Mutex
	told   gitstate.Revision
	number int64 // of the telling
	heads  chan struct{}
	serves map[string]Desired
	sets   int
}

func newShards() *fakeShards { return &fakeShards{heads: make(chan struct{}, 1)} }

func (s *fakeShards) Tell(head gitstate.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told == head {
		return
	}
	s.told = head
	s.number++
	select {
	case s.heads <- struct{}{}:
	default:
	}
}

func (s *fakeShards) Told() (gitstate.Revision, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told, s.number
}

func (s *fakeShards) Heads() <-chan struct{} { return s.heads }

func (s *fakeShards) Serve(_ gitstate.Revision, desired map[string]Desired) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serves = desired
	s.sets++
}

// follower is the clone of another replica. It has as many of the leader's commits as the leader pushed; what the leader
// keeps comes with Restore.
type follower struct {
	*fakeStore
	leader *fakeStore
}

func (f *follower) take(n int) {
	f.leader.mu.Lock()
	defer f.leader.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if n > len(f.heads) {
		f.heads, f.messages = slices.Clone(f.leader.heads[:n]), maps.Clone(f.leader.messages)
	}
}

func (f *follower) Load(ctx context.Context) (store.Tree, error) {
	if f.offline == nil {
		_, n := f.leader.counts()
		f.take(n)
	}
	return f.fakeStore.Load(ctx)
}

func (f *follower) Restore(_ context.Context, b store.Bundle) error {
	n, _ := f.leader.counts()
	if b.Head != head(n) {
		return store.ErrBundle
	}
	f.take(n)
	return nil
}

func head(n int) gitstate.Revision { return gitstate.Revision(fmt.Sprintf("c%d", n)) }

func (s *fakeStore) counts() (commits, pushed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.heads), s.pushed
}

// replicas are a leader and another one, which read the same source.
func replicas(t *testing.T, files map[string]string) (leader, other *world, k *fakeKeeper) {
	t.Helper()
	k = &fakeKeeper{}
	leader = newWorld(t, files, func(c *Config) {
		c.Keeper, c.Options.SecretKey, c.Options.Shared, c.Shards = k, []byte("of all of them, it is"), true, newShards()
		c.Options.MaxDeletePercent = 100
	})
	other = newWorld(t, files, func(c *Config) {
		c.Keeper, c.Options, c.Shards = k, leader.Options, leader.Shards
		c.Source, c.Store = leader.source, &follower{&fakeStore{}, leader.store}
	})
	other.source = leader.source
	return leader, other, k
}

func (w *world) followFor(t *testing.T, d time.Duration) map[string]Desired {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	w.Follow(ctx)
	s := w.Shards.(*fakeShards)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serves
}

// alike tells how what the other replica serves differs from what the leader would.
func alike(t *testing.T, got, want map[string]Desired) {
	t.Helper()
	if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
		t.Fatalf("it serves %v, the leader %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	for name, w := range want {
		g := got[name]
		if !reflect.DeepEqual(g.Cluster.Spec, w.Cluster.Spec) || g.RecordedUID != w.RecordedUID || g.ReadOnly != w.ReadOnly || g.Paused || !maps.Equal(g.Retired, w.Retired) {
			t.Errorf("%s: it has %+v, the leader %+v", name, g, w)
		}
		if len(g.Works) != len(w.Works) {
			t.Errorf("%s: it has %d works, the leader %d", name, len(g.Works), len(w.Works))
		}
		for id, work := range w.Works {
			other := g.Works[id]
			if (other.Rules == nil) != (work.Rules == nil) {
				t.Errorf("%s: %s: by rules: %t, the leader's: %t", name, id, other.Rules != nil, work.Rules != nil)
			}
			other.Rules, work.Rules = nil, nil
			if !reflect.DeepEqual(other, work) {
				t.Errorf("%s: %s: it has %+v, the leader %+v", name, id, other, work)
			}
		}
	}
}

const secretWeb = `
apiVersion: v1
kind: Secret
metadata: {name: web}
stringData: {password: "hidden"}
`

// various is a source with what makes works different.
func various() map[string]string {
	files := placed()
	files["m2.yaml"] = strings.ReplaceAll(member1, "m1", "m2")
	files["secret.yaml"] = secretWeb
	files["claim.yaml"] = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {ports: [{port: 80}]}\n"
	files["policy.yaml"] = `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: all}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}, {apiVersion: v1, kind: Secret}]
  conflictResolution: Overwrite
  suspension: {dispatchingOnClusters: {clusterNames: [m2]}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: shop, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Service}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: m2}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Secret}]
  overrideRules:
  - targetCluster: {clusterNames: [m2]}
    overriders: {labelAnnotationOverrider: {}, plaintext: [{path: /stringData/password, operator: replace, value: other}]}
`
	files["policy.yaml"] = strings.Replace(files["policy.yaml"], "labelAnnotationOverrider: {}, ", "", 1)
	return files
}

// Values of Secrets are not on record, and yet another replica serves the very same as the leader would.
func TestAnotherReplicaServesWhatTheLeaderWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, other, _ := replicas(t, various())
		leader.runFor(t, 30*time.Second)
		got := other.followFor(t, time.Minute)
		alike(t, got, leader.fleet.desired)
		secret := api.ID{Kind: "Secret", Namespace: "default", Name: "web"}
		for name, want := range map[string]string{"m1": "hidden", "m2": "other"} {
			if data, _ := got[name].Works[secret].Object["stringData"].(map[string]any); data["password"] != want {
				t.Errorf("on %s the Secret is %v", name, got[name].Works[secret].Object)
			}
		}
		// What goes is to be deleted by it, too.
		files := various()
		delete(files, "web.yaml")
		leader.source.push(files)
		leader.fleet.silent = true // nothing is confirmed
		leader.Reconciler = New(leader.Config)
		leader.runFor(t, 30*time.Second)
		got = other.followFor(t, time.Minute)
		if len(got["m1"].Retired) != 1 {
			t.Errorf("to be deleted is %v", got["m1"].Retired)
		}
		alike(t, got, leader.fleet.desired)
		if strings.Contains(other.log.String(), "WARN") {
			t.Errorf("it complains:\n%s", other.log)
		}
	})
}

// While the remote is away, what the leader kept is carried out; a newer commit that it told nobody of is not, and nothing
// that was told before comes back.
func TestAnotherReplicaServesWhatIsOnlyKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, other, k := replicas(t, various())
		leader.runFor(t, 10*time.Second)
		shards := leader.Shards.(*fakeShards)
		first, pushed := leader.store.counts()
		if first != pushed || shards.told != head(first) {
			t.Fatalf("%d of %d are pushed, told is %s", pushed, first, shards.told)
		}
		other.followFor(t, time.Minute)
		away := other.Store.(*follower)
		leader.store.pushErr, away.offline = errAway, errAway
		files := various()
		files["web.yaml"] = strings.Replace(config, "a: b", "a: c", 1)
		files["secret.yaml"] = strings.Replace(secretWeb, "hidden", "new", 1)
		leader.source.push(files)
		leader.Reconciler = New(leader.Config)
		leader.runFor(t, 10*time.Second)
		if commits, pushed := leader.store.counts(); commits == first || pushed != first || shards.told != head(commits) || k.bundle.Head != head(commits) {
			t.Fatalf("%d commits, %d pushed, told is %s, kept %s", commits, pushed, shards.told, k.bundle.Head)
		}
		k.readErr = errAway
		before := other.followFor(t, time.Minute)
		if before["m1"].Works[api.ID{Kind: "ConfigMap", Namespace: "default", Name: "web"}].Object["data"].(map[string]any)["a"] != "b" {
			t.Error("it serves what nobody could read")
		}
		if got := other.Behind(); got < 45*time.Second || got > time.Minute {
			t.Errorf("it is %s behind", got)
		}
		k.readErr = nil
		alike(t, other.followFor(t, time.Minute), leader.fleet.desired)

		if got := other.Behind(); got != 0 {
			t.Errorf("it is %s behind", got)
		}
		sets := shards.sets
		shards.told = head(first) // as it was once
		other.followFor(t, time.Minute)
		if shards.sets != sets {
			t.Error("what was told before is carried out again")
		}
		shards.number--
		shards.Tell(head(first)) // as before, by the number
		if other.followFor(t, time.Minute); shards.sets != sets {
			t.Error("what was told before is carried out again")
		}
		shards.Tell("c77")
		other.followFor(t, time.Minute)
		if shards.sets != sets || !strings.Contains(other.log.String(), "what the leader decided cannot be read") {
			t.Errorf("a commit that nobody has:\n%s", other.log)
		}
	})
}

// A leader that goes back is followed, as where a Git server got a backup of its branches back.
func TestAnotherReplicaGoesBackWithTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, other, _ := replicas(t, various())
		leader.runFor(t, 10*time.Second)
		shards, id := leader.Shards.(*fakeShards), api.ID{Kind: "ConfigMap", Namespace: "default", Name: "web"}
		first := shards.told
		value := func() any {
			return other.followFor(t, time.Minute)["m1"].Works[id].Object["data"].(map[string]any)["a"]
		}
		files := various()
		files["web.yaml"] = strings.Replace(config, "a: b", "a: c", 1)
		leader.source.push(files)
		leader.Reconciler = New(leader.Config)
		leader.runFor(t, 10*time.Second)
		if second := shards.told; second == first || value() != "c" {
			t.Fatalf("%s comes after %s: %v", second, first, value())
		}
		shards.Tell(first)
		if got := value(); got != "b" {
			t.Errorf("it serves %v", got)
		}
		// A head that nobody has, and then the one that is served already: that is what is to be, from now on.
		shards.Tell("c77")
		other.followFor(t, time.Minute)
		if other.Behind() == 0 {
			t.Error("it is not behind")
		}
		others := other.Shards.(*fakeShards)
		sets := others.sets
		shards.Tell(first)
		other.followFor(t, time.Minute)
		if behind := other.Behind(); behind != 0 || others.sets != sets+1 {
			t.Errorf("it is %s behind, and was told to serve %d times", behind, others.sets-sets)
		}
	})
}

// Where the source cannot be read the rest is served, and a Secret that changed is left as it is on the member.
func TestASecretWithoutItsSourceIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, other, _ := replicas(t, various())
		leader.runFor(t, 10*time.Second)
		behind := &fakeSource{revisions: leader.source.revisions[:1:1]}
		other.Config.Source = behind
		other.Reconciler = New(other.Config)
		secret, web := api.ID{Kind: "Secret", Namespace: "default", Name: "web"}, api.ID{Kind: "ConfigMap", Namespace: "default", Name: "web"}
		if d := other.followFor(t, time.Minute)["m1"]; d.Works[secret].Object == nil {
			t.Fatal("the Secret is missing")
		}
		files := various()
		files["web.yaml"] = strings.Replace(config, "a: b", "a: c", 1)
		leader.source.push(files)
		leader.Reconciler = New(leader.Config)
		leader.runFor(t, 10*time.Second)
		if d := other.followFor(t, time.Minute)["m1"]; d.Works[secret].Object == nil || d.Works[web].Object["data"].(map[string]any)["a"] != "c" {
			t.Errorf("the Secret did not change and the other object did: %v", d.Works)
		}
		files["policy.yaml"] = strings.Replace(files["policy.yaml"], "dispatchingOnClusters: {clusterNames: [m2]}", "dispatchingOnClusters: {clusterNames: [m1]}", 1)
		leader.source.push(files)
		leader.Reconciler = New(leader.Config)
		leader.runFor(t, 10*time.Second)
		for name, d := range other.followFor(t, time.Minute) {
			for id, w := range d.Works {
				if want := name == "m1" && id.Namespace == "default"; w.Suspended != want {
					t.Errorf("on %s %s is suspended: %t, want %t", name, id, w.Suspended, want)
				}
			}
		}
		files["secret.yaml"] = strings.Replace(secretWeb, "hidden", "new", 1)
		leader.source.push(files)
		leader.Reconciler = New(leader.Config)
		leader.runFor(t, 10*time.Second)
		if d := other.followFor(t, time.Minute)["m1"]; d.Works[secret].Object != nil || d.Works[web].Object == nil || len(d.Retired) > 0 {
			t.Errorf("nobody knows what the Secret is: %v, %v", d.Works, d.Retired)
		}
		if n := strings.Count(other.log.String(), "an object is left as it is"); n != 1 { // on m2 another value stands in its place
			t.Errorf("it is said %d times:\n%s", n, other.log)
		}
		behind.revisions = leader.source.revisions
		alike(t, other.followFor(t, time.Minute), leader.fleet.desired)
	})
}

func TestADeletionThatWaitsIsNotCarriedOutByAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, other, _ := replicas(t, various())
		leader.runFor(t, 10*time.Second)
		other.followFor(t, time.Minute)
		state := leader.state
		state.Retired = map[string]record.Retired{}
		for _, name := range []string{"waits", "goes"} {
			id := api.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: name}
			state.Retired[record.RetiredPath("m1", id)] = record.Retired{Cluster: "m1", Object: record.ObjectRef{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: name}, Spared: name == "waits"}
		}
		served, whole, spared := other.rendered(t.Context(), state)
		retired := desired(served, spared, other.serving.rules)["m1"].Retired
		if _, goes := retired[api.ID{Kind: "ConfigMap", Namespace: "default", Name: "goes"}]; !whole || !goes || len(retired) != 1 {
			t.Errorf("to be deleted is %v", retired)
		}
	})
}
