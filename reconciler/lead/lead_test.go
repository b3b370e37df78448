package lead

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

// replicas of one fleet, in one management cluster.
func join(t *testing.T, s *membertest.Server, identity string) (*Election, *Keeper) {
	t.Helper()
	e, k, err := New(s.RestConfig(), Options{
		Namespace: "default", Name: "godwit", Identity: identity, Log: slog.New(slog.DiscardHandler),
		Duration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, k
}

// testSize of parts is small: what is large is slow.
const testSize = 1000

func keeper(t *testing.T, s *membertest.Server) *Keeper {
	_, k := join(t, s, "any")
	k.size = testSize
	return k
}

// pack is of n bytes that no two calls share.
func pack(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func names(t *testing.T, c typedcorev1.SecretInterface) []string {
	t.Helper()
	all, err := c.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range all.Items {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

func TestWhatIsKeptIsThereForTheNextLeader(t *testing.T) {
	s := membertest.Start(t, "management")
	first := keeper(t, s)
	c := first.Secrets
	if got, found, err := first.Kept(t.Context()); err != nil || found || got.Head != "" {
		t.Fatalf("nothing is kept: %+v, %v", got, err)
	}
	for _, n := range []int{10, testSize, testSize + 1, 2*testSize + 5, 0, 100} {
		want := store.Bundle{Base: "b", Head: "h", Pack: pack(n)}
		if err := first.Keep(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		next := keeper(t, s)
		got, found, err := next.Kept(t.Context())
		if err != nil || !found {
			t.Fatal(found, err)
		}
		if !bytes.Equal(want.Pack, got.Pack) || got.Head != "h" || got.Base != "b" {
			t.Fatalf("%d bytes: %d came back from %q to %q", n, len(got.Pack), got.Base, got.Head)
		}
		if want := max(1, (n+testSize-1)/testSize); len(names(t, c)) != want {
			t.Errorf("%d bytes are in %v", n, names(t, c))
		}
	}
	if err := first.Keep(t.Context(), store.Bundle{Head: "h", Pack: pack(maxParts*testSize + 1)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too much: %v", err)
	}
	if err := first.Forget(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if got, found, err := keeper(t, s).Kept(t.Context()); err != nil || !found || got.Base != "p" || got.Head != "" || len(got.Pack) > 0 {
		t.Errorf("forgotten: %+v, %v", got, err)
	}
}

func TestALeaderThatWasOvertakenKeepsNothing(t *testing.T) {
	s := membertest.Start(t, "management")
	old, successor := keeper(t, s), keeper(t, s)
	c := old.Secrets
	for _, k := range []*Keeper{old, successor} {
		if _, _, err := k.Kept(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	keep := func(k *Keeper, head string, n int) error {
		return k.Keep(t.Context(), store.Bundle{Head: "h", Pack: append([]byte(head), pack(n)...)})
	}
	if err := keep(successor, "two", 2*testSize); err != nil {
		t.Fatal(err)
	}
	if err := keep(old, "one", 2*testSize); !errors.Is(err, ErrOvertaken) {
		t.Fatalf("made beside the successor's: %v", err)
	}
	if _, _, err := old.Kept(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := keep(successor, "three", 2*testSize); err != nil {
		t.Fatal(err)
	}
	if err := keep(old, "four", 10); !errors.Is(err, ErrOvertaken) {
		t.Fatalf("written over the successor's: %v", err)
	}
	b, _, err := keeper(t, s).Kept(t.Context())
	if err != nil || !strings.HasPrefix(string(b.Pack), "three") {
		t.Fatalf("%.5s, %v", b.Pack, err)
	}
	// What the old one left behind is tidied up, and nothing else.
	if _, err := c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := len(names(t, c))
	if err := successor.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := names(t, c)
	if len(after) >= before || !slices.Contains(after, "other") {
		t.Errorf("of %d Secrets %v are left", before, after)
	}
	if _, _, err := keeper(t, s).Kept(t.Context()); err != nil {
		t.Errorf("after tidying up: %v", err)
	}
}

func TestANote(t *testing.T) {
	s := membertest.Start(t, "management")
	secrets := keeper(t, s).Secrets
	old, next := &Note{Secrets: secrets, Name: "note"}, &Note{Secrets: secrets, Name: "note"}
	read := func(n *Note, want string) {
		t.Helper()
		if got, err := n.Read(t.Context()); err != nil || got != want {
			t.Errorf("it says %q (%v), want %q", got, err, want)
		}
	}
	write := func(n *Note, line string, want error) {
		t.Helper()
		if err := n.Write(t.Context(), line); !errors.Is(err, want) {
			t.Errorf("write %s: %v, want %v", line, err, want)
		}
	}
	read(old, "")
	write(old, "1", nil)
	write(old, "2", nil)
	read(next, "2")
	write(next, "3", nil)
	write(old, "late", ErrOvertaken)
	read(next, "3")
	// Whoever still leads after that has the last word.
	write(next, "4", nil)
	write(old, "5", nil)
	write(next, "lost", ErrOvertaken)
	write(next, "6", nil)
	read(old, "6")
	if err := secrets.Delete(t.Context(), "note", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := next.Write(t.Context(), "7"); err == nil {
		t.Error("what somebody deleted was updated")
	}
	write(next, "8", nil)
	read(old, "8")
	s.Down()
	if _, err := old.Read(t.Context()); err == nil {
		t.Error("read from a cluster that is away")
	}
	if err := old.Write(t.Context(), "9"); err == nil {
		t.Error("wrote to a cluster that is away")
	}
}

func TestSecretsThatDoNotFitTogetherAreNoBundle(t *testing.T) {
	for name, spoil := range map[string]func(c typedcorev1.SecretInterface, s, part *corev1.Secret){
		"a part is gone": func(c typedcorev1.SecretInterface, _, part *corev1.Secret) {
			c.Delete(context.Background(), part.Name, metav1.DeleteOptions{})
		},
		"a part is another": func(c typedcorev1.SecretInterface, _, part *corev1.Secret) {
			part.Data[keyPack] = []byte("x")
			c.Update(context.Background(), part, metav1.UpdateOptions{})
		},
		"no number of parts": func(c typedcorev1.SecretInterface, s, _ *corev1.Secret) {
			s.Data[keyParts] = []byte("many")
			c.Update(context.Background(), s, metav1.UpdateOptions{})
		},
		"no checksum": func(c typedcorev1.SecretInterface, s, _ *corev1.Secret) {
			s.Data[keySum] = nil
			c.Update(context.Background(), s, metav1.UpdateOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := membertest.Start(t, "management")
			k := keeper(t, server)
			c := k.Secrets
			if err := k.Keep(t.Context(), store.Bundle{Head: "h", Pack: pack(testSize + 9)}); err != nil {
				t.Fatal(err)
			}
			var found [2]*corev1.Secret
			for i, name := range []string{k.Name, k.parts[0]} {
				s, err := c.Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				found[i] = s
			}
			spoil(c, found[0], found[1])
			next := keeper(t, server)
			if _, _, err := next.Kept(t.Context()); !errors.Is(err, store.ErrBundle) {
				t.Fatalf("it can be read: %v", err)
			}
			if err := next.Keep(t.Context(), store.Bundle{Head: "h2", Pack: pack(3)}); err != nil {
				t.Errorf("it stands in the way of the next one: %v", err)
			}
		})
	}
}

func TestAllReplicasShareOneKey(t *testing.T) {
	s := membertest.Start(t, "management")
	keys := make(chan string)
	for _, name := range []string{"a", "b", "c", "d"} {
		e, _ := join(t, s, name)
		go func() {
			key, err := e.Key(t.Context())
			if err != nil {
				t.Error(err)
			}
			keys <- string(key)
		}()
	}
	first := <-keys
	if len(first) != keySize {
		t.Errorf("a key of %d bytes", len(first))
	}
	for range 3 {
		if key := <-keys; key != first {
			t.Error("two replicas have different keys")
		}
	}
	e, k := join(t, s, "e")
	if _, err := k.Secrets.Update(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "godwit-key"}, Data: map[string][]byte{keyData: []byte("short")}}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Key(t.Context()); err == nil || !strings.Contains(err.Error(), "default/godwit-key") {
		t.Errorf("a key that is too short: %v", err)
	}
}

// replica takes part in an election; it tells when it leads, and how its part ended.
type replica struct {
	led  chan struct{}
	end  chan error
	stop context.CancelFunc
}

func start(t *testing.T, s *membertest.Server, name string, leaders *atomic.Int32) *replica {
	t.Helper()
	e, _ := join(t, s, name)
	ctx, stop := context.WithCancel(t.Context())
	r := &replica{led: make(chan struct{}), end: make(chan error, 1), stop: stop}
	var stood atomic.Bool
	go func() {
		r.end <- e.Run(ctx, func(ctx context.Context) { <-ctx.Done(); stood.Store(true) }, func(ctx context.Context) error {
			if n := leaders.Add(1); n != 1 || !stood.Load() || !e.Leading() {
				t.Errorf("%s leads as one of %d, after standing by: %v", name, n, stood.Load())
			}
			close(r.led)
			<-ctx.Done()
			leaders.Add(-1)
			return nil
		})
	}()
	return r
}

func TestOneLeadsAndTheNextTakesOver(t *testing.T) {
	s := membertest.Start(t, "management")
	var leaders atomic.Int32
	a := start(t, s, "a", &leaders)
	<-a.led
	b, c := start(t, s, "b", &leaders), start(t, s, "c", &leaders)
	c.stop()
	if err := <-c.end; err != nil {
		t.Fatalf("a standby that is stopped: %v", err)
	}
	a.stop() // gives the lease back
	if err := <-a.end; err != nil {
		t.Fatal(err)
	}
	<-b.led
	s.Freeze()
	if err := <-b.end; !errors.Is(err, ErrLost) {
		t.Fatalf("a leader that cannot renew: %v", err)
	}
	s.Thaw()
	d := start(t, s, "d", &leaders)
	<-d.led
	d.stop()
	if err := <-d.end; err != nil {
		t.Fatal(err)
	}
}

// Two processes that were given one identity are two: the second one waits for the first as any other would.
func TestOfTwoProcessesWithOneIdentityOneLeads(t *testing.T) {
	s := membertest.Start(t, "management")
	var leaders atomic.Int32
	first := start(t, s, "a", &leaders)
	<-first.led
	var looks atomic.Int64
	enough := make(chan struct{})
	s.Intercept(func(r *http.Request) *metav1.Status {
		if r.Method == http.MethodGet && looks.Add(1) == 60 {
			close(enough) // for longer than the Lease lasts
		}
		return nil
	})
	second := start(t, s, "a", &leaders)
	select {
	case <-second.led:
		t.Fatal("both lead")
	case <-enough:
	}
	first.stop()
	if err := <-first.end; err != nil {
		t.Fatal(err)
	}
	<-second.led
	second.stop()
	if err := <-second.end; err != nil {
		t.Fatal(err)
	}
}

// A leader that can renew and cannot read leads nobody anywhere.
func TestALeaderThatCannotReadLosesTheLease(t *testing.T) {
	s := membertest.Start(t, "management")
	var leaders atomic.Int32
	a := start(t, s, "a", &leaders)
	<-a.led
	s.Intercept(func(r *http.Request) *metav1.Status {
		if r.Method != http.MethodGet {
			return nil
		}
		return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError}
	})
	if err := <-a.end; !errors.Is(err, ErrLost) {
		t.Errorf("it ended with %v", err)
	}
}
