package shard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/reconciler/roster"
)

// Options of a Replica, and of what is kept beside its Lease.
type Options struct {
	// Namespace, and Name of the leader's Lease, after which ours are named.
	Namespace, Name string
	// Identity of this replica, different from those of all others. Of two processes that have the same one, one serves.
	Identity string
	// Duration is how long the others wait for a replica that is silent, RenewDeadline how long one that cannot renew
	// goes on, and RetryPeriod how often it renews and looks.
	Duration, RenewDeadline, RetryPeriod time.Duration
	// Ready tells whether this replica can serve members; before, it takes no part.
	Ready func() bool
	// Leading tells whether it leads at this moment: nobody else may have the leader's Lease.
	Leading func() bool
	// Log, default slog.Default(). Clock, default the real one.
	Log   *slog.Logger
	Clock clock.WithTickerAndDelayedExecution
}

// The labels and annotations of our objects.
const (
	labelReplicas   = "godwit.dev/replicas" // of Leases; its value is the Name
	annotationEpoch = "godwit.dev/epoch"    // that a replica follows
	annotationOwner = "godwit.dev/process"  // that wrote the Lease
	annotationTold  = "godwit.dev/reported" // other text whenever all that a replica knows is reported
	annotationList  = "godwit.dev/roster"
	annotationHead  = "godwit.dev/head"    // of the state branch
	annotationTells = "godwit.dev/telling" // the number of the telling
)

// Replica is this process among the others. Run and Leave may be called once.
type Replica struct {
	o       Options
	process string // another one in each
	leases  typedcoordinationv1.LeaseInterface
	secrets typedcorev1.SecretInterface
	objects dynamic.Interface // for what is watched
	metas   dynamic.Interface // the same, without what is in it

	wake   chan struct{} // renew and look
	shares chan struct{}
	heads  chan struct{}

	mu       sync.Mutex
	standing roster.Standing
	known    roster.Roster     // as last read, whoever may follow it
	marks    map[string]string // of reports, by replica that lives
	head     gitstate.Revision // that the leader told
	telling  int64             // the number of that
	follows  int64             // the epoch that the fleet follows
	current  roster.Roster     // by which what is carried out was what the leader told, or decided here
	reported string            // for the next renewal
	announce gitstate.Revision // to tell; empty if nothing was decided here
	leads    bool              // and not only holds the leader's Lease
	expiry   clock.Timer       // of the standing
	last     roster.Share      // that was signalled

	// Of Run alone:

	own      *coordinationv1.Lease // as last written
	looked   time.Time             // when the Leases were last asked for that could be read
	enrolled bool
	presence roster.Presence
	said     map[string]bool
	twins    roster.Presence // the process that our Lease is of, while that is another one
}

// New prepares a replica; nothing is asked yet.
func New(config *rest.Config, o Options) (*Replica, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	config = rest.CopyConfig(config)
	config.ContentType = "application/json"
	config.WarningHandlerWithContext = rest.NoWarnings{}
	config.QPS = -1 // few requests are sent at a time: see hands
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("management cluster: %w", err)
	}
	bare := rest.CopyConfig(config)
	bare.Wrap(func(next http.RoundTripper) http.RoundTripper { return metadataOnly{next} })
	metas, err := dynamic.NewForConfig(bare)
	if err != nil {
		return nil, fmt.Errorf("management cluster: %w", err)
	}
	secrets, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("management cluster: %w", err)
	}
	config = rest.CopyConfig(config) // what renews does not wait for what reports
	leases, err := typedcoordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("management cluster: %w", err)
	}
	return &Replica{
		o: o, process: rand.Text(), leases: leases.Leases(o.Namespace), secrets: secrets.Secrets(o.Namespace), objects: objects, metas: metas,
		wake: make(chan struct{}, 1), shares: make(chan struct{}, 1), heads: make(chan struct{}, 1),
		standing: roster.Standing{Name: o.Identity, Deadline: o.RenewDeadline},
		presence: roster.Presence{Duration: o.Duration}, twins: roster.Presence{Duration: o.Duration}, said: map[string]bool{},
	}, nil
}

// metadataOnly asks for the metadata of objects. A server that does not know that gives the whole objects.
type metadataOnly struct{ next http.RoundTripper }

func (m metadataOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	kind := "PartialObjectMetadataList"
	if r.URL.Query().Get("watch") != "" {
		kind = "PartialObjectMetadata"
	}
	r.Header.Set("Accept", "application/json;as="+kind+";g=meta.k8s.io;v=v1,application/json")
	return m.next.RoundTrip(r)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Share is what this replica serves now.
func (r *Replica) Share() roster.Share {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.standing.Share(r.o.Clock.Now())
}

// May tells whether this replica may write to a member now: it is in our share, and what we carry out is no older than what
// somebody else may have had carried out there before it was.
func (r *Replica) May(member string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	share := r.standing.Share(r.o.Clock.Now())
	return share.Has(member) && share.Roster.Same(r.current)
}

// carries says that what is carried out is what the leader told along with a roster, or later.
func (r *Replica) carries(by roster.Roster) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = by
}

// Tell has the other replicas carry out what the state branch says at the head, which they can read. Only who leads may.
func (r *Replica) Tell(head gitstate.Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.announce != head {
		r.announce = head
		signal(r.wake)
	}
}

// Told is the head that the leader told last; empty where that is not known. Each telling has a higher number than those
// before, whoever leads.
func (r *Replica) Told() (head gitstate.Revision, telling int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head, r.telling
}

// lead says that this replica leads, or does not any more.
func (r *Replica) lead(leads bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leads, r.announce = leads, ""
	signal(r.wake)
}

// follow says that nothing is in work that an epoch does not allow.
func (r *Replica) follow(epoch int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.follows != epoch {
		r.follows = epoch
		signal(r.wake)
	}
}

// report says that all that was known at a time is reported.
func (r *Replica) report(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reported = strconv.FormatInt(at.UnixMilli(), 10)
}

// beat is another text whenever the replica that serves a member, if that is the author of the last report on it, has
// reported all it knows; empty while it is silent.
func (r *Replica) beat(member, author string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if author == "" || r.known.Serves(member) != author || r.marks[author] == "" {
		return ""
	}
	return author + " " + r.marks[author]
}

// Size is how many replicas take part.
func (r *Replica) Size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known.Replicas)
}

// Run renews and looks until ctx ends. The Lease stays: see Leave.
func (r *Replica) Run(ctx context.Context) {
	var watching sync.WaitGroup
	watching.Go(func() { r.watch(ctx) })
	defer watching.Wait()
	r.looked = r.o.Clock.Now()
	for ctx.Err() == nil {
		blind := r.o.Clock.Since(r.looked) > r.o.RenewDeadline
		switch {
		case blind: // the others wait for whoever renews, and we do not know for what
		case r.o.Ready():
			r.renew(ctx)
		case !r.enrolled:
			r.enrol(ctx)
		}
		if r.look(ctx); blind && r.o.Clock.Since(r.looked) <= r.o.RenewDeadline {
			continue
		}
		timer := r.o.Clock.NewTimer(r.o.RetryPeriod)
		select {
		case <-ctx.Done():
		case <-timer.C():
		case <-r.wake:
		}
		timer.Stop()
	}
}

// Leave gives the Lease back, so that the others need not wait until it runs out. Nothing may be in work any more, nor Run
// go on.
func (r *Replica) Leave(ctx context.Context) {
	r.mu.Lock()
	r.standing.Released()
	if r.expiry != nil {
		r.expiry.Stop()
	}
	r.mu.Unlock()
	if r.own == nil {
		return
	}
	err := r.leases.Delete(ctx, r.own.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &r.own.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		r.o.Log.Warn("the lease of this replica could not be given back, it runs out", "error", err)
	}
}

// timeout of a request: several fit before the deadline.
func (r *Replica) timeout() time.Duration { return r.o.RenewDeadline / 3 }

// once says something when it begins, and that it is over.
func (r *Replica) once(what, over string, err error) {
	switch {
	case err != nil && !r.said[what]:
		r.said[what] = true
		r.o.Log.Warn(what, "error", err)
	case err == nil && r.said[what]:
		delete(r.said, what)
		r.o.Log.Info(over)
	}
}

// leaseName of a replica. An identity that is no name has a hash in its place.
func (r *Replica) leaseName(identity string) string {
	name := r.o.Name + "-replica-" + identity
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		sum := sha256.Sum256([]byte(identity))
		name = r.o.Name + "-replica-" + hex.EncodeToString(sum[:8])
	}
	return name
}

func (r *Replica) rosterName() string { return r.o.Name + "-roster" }

func (r *Replica) lease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: r.o.Namespace, Labels: map[string]string{labelReplicas: r.o.Name}, Annotations: map[string]string{},
	}}
}

// renew renews our Lease.
func (r *Replica) renew(ctx context.Context) {
	sent, err := r.write(ctx)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		r.own = nil // a person changed it, or a process before us had it
		sent, err = r.write(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	r.once("the lease of this replica cannot be renewed", "the lease of this replica is renewed again", err)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.o.Clock.Now()
	r.standing.Renewed(sent, now)
	if r.expiry != nil {
		r.expiry.Stop()
	}
	r.expiry = r.o.Clock.AfterFunc(r.standing.Until().Sub(now)+time.Millisecond, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.judge()
	})
	r.judge()
}

// judge tells of another share. r.mu is held.
func (r *Replica) judge() {
	if share := r.standing.Share(r.o.Clock.Now()); !share.Same(r.last) {
		r.last = share
		signal(r.shares)
	}
}

// enrol makes our Lease where there is none, and does not renew it: we are one of those that divide members, and cannot
// serve any yet.
func (r *Replica) enrol(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	l := r.lease(r.leaseName(r.o.Identity))
	l.Spec.HolderIdentity = &r.o.Identity
	_, err := r.leases.Create(ctx, l, metav1.CreateOptions{})
	r.enrolled = err == nil || apierrors.IsAlreadyExists(err)
}

// write writes our Lease, as it is by now.
func (r *Replica) write(ctx context.Context) (sent time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	if r.own == nil {
		r.own, err = r.leases.Get(ctx, r.leaseName(r.o.Identity), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			r.own, err = r.lease(r.leaseName(r.o.Identity)), nil
		}
		if err == nil {
			err = r.twin(r.own)
		}
		if err != nil {
			r.own = nil
			return sent, err
		}
	}
	sent = r.o.Clock.Now()
	next := r.own.DeepCopy()
	if next.Spec.RenewTime == nil {
		next.Spec.AcquireTime = ptr.To(metav1.NewMicroTime(sent))
	}
	next.Spec.HolderIdentity, next.Spec.RenewTime = &r.o.Identity, ptr.To(metav1.NewMicroTime(sent))
	next.Spec.LeaseDurationSeconds = ptr.To(int32(r.o.Duration / time.Second))
	next.Labels = map[string]string{labelReplicas: r.o.Name}
	r.mu.Lock()
	next.Annotations = map[string]string{
		annotationEpoch: strconv.FormatInt(r.follows, 10), annotationTold: r.reported, annotationOwner: r.process,
	}
	r.mu.Unlock()
	if next.ResourceVersion == "" {
		next, err = r.leases.Create(ctx, next, metav1.CreateOptions{})
	} else {
		next, err = r.leases.Update(ctx, next, metav1.UpdateOptions{})
	}
	if err == nil {
		r.own = next
	}
	return sent, err
}

// twin is an error while another process renews our Lease. By our own clock it is to be silent for as long as of any
// replica before others take its members: nothing of it is in work any more then.
func (r *Replica) twin(l *coordinationv1.Lease) error {
	marks := map[string]string{}
	if by := l.Annotations[annotationOwner]; by != "" && by != r.process && l.Spec.RenewTime != nil {
		marks[by] = string(l.UID) + l.Spec.RenewTime.UTC().Format(time.RFC3339Nano)
	}
	if now := r.o.Clock.Now(); len(r.twins.Live(marks, now, now)) > 0 {
		return fmt.Errorf("another process uses identity %s, or did until a moment ago; of several processes each needs its own: set leaderElection.identity, or unset it", r.o.Identity)
	}
	return nil
}

// look reads the Leases and draws the consequences.
func (r *Replica) look(ctx context.Context) {
	asked := r.o.Clock.Now()
	leader, err := r.leader(ctx)
	var all *coordinationv1.LeaseList
	if err == nil {
		all, err = r.list(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	r.once("the leases of the replicas cannot be read", "the leases of the replicas can be read again", err)
	if err != nil {
		return
	}
	r.looked = asked
	all.Items = slices.DeleteFunc(all.Items, func(l coordinationv1.Lease) bool {
		return l.Name != r.rosterName() && l.Name != r.leaseName(ptr.Deref(l.Spec.HolderIdentity, "")) // a person's
	})
	list := r.lease(r.rosterName())
	foreign := leader != ""
	renewals, epochs, marks := map[string]string{}, map[string]int64{}, map[string]string{}
	for i := range all.Items {
		l := &all.Items[i]
		if l.Name != r.rosterName() && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == leader {
			foreign = false
		}
		switch {
		case l.Name == r.rosterName():
			list = l
		case l.Spec.HolderIdentity != nil && l.Spec.RenewTime != nil:
			name := *l.Spec.HolderIdentity
			renewals[name] = string(l.UID) + l.Spec.RenewTime.UTC().Format(time.RFC3339Nano)
			epochs[name] = number(l.Annotations[annotationEpoch])
			marks[name] = l.Annotations[annotationTold]
		}
	}
	live := r.presence.Live(renewals, asked, r.o.Clock.Now())
	dead := func(name string) bool { return !live[name] }
	maps.DeleteFunc(epochs, func(name string, _ int64) bool { return dead(name) })
	maps.DeleteFunc(marks, func(name string, _ string) bool { return dead(name) })
	known, err := rosterOf(list)
	r.once("what the leader wrote of the replicas cannot be used", "what the leader wrote of the replicas can be used again", err)
	err = nil
	if foreign {
		err = fmt.Errorf("leader %s has no lease of a replica: sharding.enabled is not set there", leader)
		known = roster.Roster{}
	}
	r.once("a process leads that serves all members itself, so that this one serves none", "members are divided again", err)
	r.saw(known, gitstate.Revision(list.Annotations[annotationHead]), number(list.Annotations[annotationTells]), marks, asked)
	if r.o.Leading() && !foreign {
		r.direct(ctx, list, known, epochs)
		r.bury(ctx, all.Items, asked)
	}
}

// buried is after how many Durations the Lease of a replica that died goes. Pods have new names each time.
const buried = 20

// bury deletes the Leases of those who will not come back under that name. One that does makes another.
func (r *Replica) bury(ctx context.Context, leases []coordinationv1.Lease, asked time.Time) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	for i := range leases {
		l := &leases[i]
		if l.Name == r.rosterName() || l.Spec.HolderIdentity == nil || r.presence.Silent(*l.Spec.HolderIdentity, asked) < buried*r.o.Duration {
			continue
		}
		err := r.leases.Delete(ctx, l.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &l.ResourceVersion}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			r.o.Log.Debug("the lease of a replica that is gone stays", "lease", l.Name, "error", err)
		}
	}
}

// leader is who holds the leader's Lease; empty if nobody does. One that is no replica like us serves all members.
func (r *Replica) leader(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout()/2)
	defer cancel()
	l, err := r.leases.Get(ctx, r.o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", err
	}
	return ptr.Deref(l.Spec.HolderIdentity, ""), nil
}

func (r *Replica) list(ctx context.Context) (*coordinationv1.LeaseList, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	return r.leases.List(ctx, metav1.ListOptions{LabelSelector: labelReplicas + "=" + r.o.Name})
}

// rosterOf reads the roster; one that was never written is the zero value.
func rosterOf(l *coordinationv1.Lease) (roster.Roster, error) {
	if text := l.Annotations[annotationList]; text != "" {
		return roster.Decode(text)
	}
	return roster.Roster{}, nil
}

// number reads one that we wrote; 0 if it is none, or larger than we get in any time.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > roster.MaxEpoch {
		return 0
	}
	return n
}

// saw takes in what was read.
func (r *Replica) saw(known roster.Roster, head gitstate.Revision, telling int64, marks map[string]string, asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.standing.Saw(known, asked)
	if !known.Same(r.known) {
		r.o.Log.Info("members are divided over replicas", "replicas", known.Replicas, "epoch", known.Epoch, "settled", known.Settled)
	}
	r.known = known
	if marks != nil {
		r.marks = marks
	}
	r.telling = telling
	if head != r.head {
		r.head = head
		signal(r.heads)
	}
	r.judge()
}

// direct writes what follows of what was read, as the leader.
func (r *Replica) direct(ctx context.Context, list *coordinationv1.Lease, known roster.Roster, epochs map[string]int64) {
	r.mu.Lock()
	leads, head := r.leads, r.announce
	r.mu.Unlock()
	if !leads {
		return
	}
	next := known.Next(epochs)
	was := gitstate.Revision(list.Annotations[annotationHead])
	if head == "" {
		head = was
	}
	if next.Epoch == 0 || next.Same(known) && head == was {
		return
	}
	// Whoever lost the Lease and does not know it yet writes nothing over what the leader after it wrote: it held the Lease
	// after it had read what it changes.
	if holder, err := r.leader(ctx); err != nil || holder != "" && holder != r.o.Identity {
		return
	}
	telling := number(list.Annotations[annotationTells])
	if head != was {
		telling = max(telling+1, r.o.Clock.Now().UnixMilli()) // which grows where what was written is lost, too
	}
	list = list.DeepCopy()
	if list.Annotations == nil {
		list.Annotations = map[string]string{}
	}
	list.Annotations[annotationList], list.Annotations[annotationHead] = next.Encode(), string(head)
	list.Annotations[annotationTells] = strconv.FormatInt(telling, 10)
	list.Spec.HolderIdentity = &r.o.Identity
	asked := r.o.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	var err error
	if list.ResourceVersion == "" {
		_, err = r.leases.Create(ctx, list, metav1.CreateOptions{})
	} else {
		_, err = r.leases.Update(ctx, list, metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		signal(r.wake) // somebody else wrote: look again
	case err != nil:
		r.once("what replicas are to do cannot be written", "", err)
	default:
		r.once("what replicas are to do cannot be written", "what replicas are to do can be written again", nil)
		r.saw(next, head, telling, nil, asked)
	}
}

// watch wakes Run when another replica or the leader has something to say.
func (r *Replica) watch(ctx context.Context) {
	said := map[string][]string{}
	for ctx.Err() == nil {
		seconds := int64(8 * time.Minute / time.Second)
		stream, err := r.leases.Watch(ctx, metav1.ListOptions{LabelSelector: labelReplicas + "=" + r.o.Name, TimeoutSeconds: &seconds})
		if err == nil {
			for event := range stream.ResultChan() {
				l, ok := event.Object.(*coordinationv1.Lease)
				if !ok || l.Name == r.leaseName(r.o.Identity) {
					continue
				}
				now := []string{string(event.Type), l.Annotations[annotationEpoch], l.Annotations[annotationList], l.Annotations[annotationHead]}
				if event.Type != watch.Deleted {
					now[0] = ""
				}
				if !slices.Equal(said[l.Name], now) {
					said[l.Name] = now
					signal(r.wake)
				}
			}
			stream.Stop()
		}
		timer := r.o.Clock.NewTimer(r.o.RetryPeriod)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
}
