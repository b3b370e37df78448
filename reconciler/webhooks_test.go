package reconciler

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/interpret"
)

// fakeWebhooks answer after a while that everything has no dependencies, or fail.
type fakeWebhooks struct {
	mu      sync.Mutex
	takes   time.Duration
	fails   int // attempts that fail, for each question
	changed chan struct{}
	answers *decide.Answers
	asked   []time.Time
	wait    map[interpret.Key]bool
}

func (f *fakeWebhooks) Changed() <-chan struct{} { return f.changed }

func (f *fakeWebhooks) Answers() *decide.Answers {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.answers
}

func (f *fakeWebhooks) Ask(unanswered []decide.Unanswered, _ []interpret.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range unanswered {
		if !u.Due || f.wait[u.Key] {
			continue
		}
		f.wait[u.Key] = true
		f.asked = append(f.asked, time.Now())
		time.AfterFunc(f.takes, func() { f.answer(u) })
	}
}

func (f *fakeWebhooks) answer(u decide.Unanswered) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var answer *interpret.Answer
	if u.Failed == nil && f.fails > 0 || u.Failed != nil && u.Failed.Attempts < f.fails {
		answer = interpret.Failed("it is down", u.Failed, time.Now())
	} else {
		body, _ := u.Body()
		var sent struct{ Request struct{ UID string } }
		if err := json.Unmarshal(body, &sent); err != nil {
			panic(err)
		}
		text, _ := json.Marshal(map[string]any{"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext",
			"response": map[string]any{"uid": sent.Request.UID, "successful": true, "replicas": 1, "healthy": true}})
		var err error
		if answer, err = u.Decode(text); err != nil {
			panic(err)
		}
	}
	next := maps.Clone(f.answers.ByKey)
	if next == nil {
		next = map[interpret.Key]*interpret.Answer{}
	}
	next[u.Key] = answer
	f.answers = &decide.Answers{ByKey: next}
	delete(f.wait, u.Key)
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

const hooks = `
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: all.example.com
  clientConfig: {url: "https://example.com/"}
  rules: [{operations: [InterpretReplica], apiGroups: [""], apiVersions: [v1], kinds: [ConfigMap]}]
  interpreterContextVersions: [v1alpha1]
`

// asking is a world in which a webhook says what a ConfigMap is, and none what a Namespace is.
func asking(t *testing.T, takes time.Duration, fails int) (*world, *fakeWebhooks) {
	t.Helper()
	f := &fakeWebhooks{takes: takes, fails: fails, changed: make(chan struct{}, 1), answers: &decide.Answers{}, wait: map[interpret.Key]bool{}}
	files := placed()
	files["hooks.yaml"] = hooks
	return newWorld(t, files, func(c *Config) { c.Webhooks = f }), f
}

func TestAWebhookHoldsUpNoPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := asking(t, time.Hour, 0)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		later(5 * time.Second)
		if n := w.fleet.works("m1"); n != 0 {
			t.Errorf("%d works without an answer", n)
		}
		other := placed()
		other["hooks.yaml"] = strings.Replace(hooks, "kinds: [ConfigMap]", "kinds: [Foo]", 1)
		w.source.push(other)
		later(16 * time.Second)
		if n := w.fleet.works("m1"); n != 1 {
			t.Errorf("%d works after a push, while a webhook takes an hour", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestAnAnswerIsReasonForAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := asking(t, 3*time.Second, 2)
		start := time.Now()
		w.runFor(t, 14*time.Second)
		if n := w.fleet.works("m1"); n != 1 {
			t.Errorf("%d works after the answer", n)
		}
		var asked []int
		for _, at := range f.asked {
			asked = append(asked, int(at.Sub(start)/time.Second))
		}
		// After 3 s it fails, and is asked again a second later; then after two more.
		if want := []int{0, 4, 9}; !slices.Equal(asked, want) {
			t.Errorf("asked at %v s, want %v", asked, want)
		}
		commits, _, subjects := w.store.state(t)
		if commits > 3 {
			t.Errorf("%d commits: %v", commits, subjects)
		}
	})
}

func TestOnceWaitsForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := asking(t, 3*time.Second, 2)
		failures, err := w.Once(t.Context(), time.Minute)
		if err != nil || len(failures) > 0 {
			t.Fatalf("Once = %v, %v", failures, err)
		}
		if n := w.fleet.works("m1"); n != 1 {
			t.Errorf("%d works", n)
		}
		w, _ = asking(t, time.Second, 1000)
		failures, err = w.Once(t.Context(), time.Minute)
		want := Failure{"", "InterpretReplica of ConfigMap default/web", "webhook hooks/all.example.com: it is down"}
		if err != nil || len(failures) != 1 || failures[0] != want {
			t.Errorf("Once = %v, %v, want %v", failures, err, want)
		}
	})
}
