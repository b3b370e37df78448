package shard

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler/pull"
)

// Limits of what a report is made of.
const (
	// partSize leaves room below the 1 MiB that the API allows a Secret.
	partSize = 800 << 10
	// partFiles is how many objects are in a part, about: what changes of one is written with the others.
	partFiles = 256
	// maxParts bounds a report, to more than anybody has.
	maxParts = 4096
	// maxText is of a part, unpacked.
	maxText = 64 << 20
)

var (
	errTooLarge   = errors.New("the report is too large")
	errIncomplete = errors.New("the report is incomplete, or none that we wrote")
)

// labelReport is on all Secrets of reports; its value is the Name.
const labelReport = "godwit.dev/report"

// The keys of the Secrets.
const (
	keyMember = "member"
	keyAuthor = "author" // the replica that wrote it
	keyHead   = "head"   // a part: the files that are no object's, and all others where there is room
	keyParts  = "parts"  // the checksums of further parts, one a line
	keyPart   = "part"   // of a Secret that is a part
)

// reportName is the Secret of a member's report.
func reportName(name, member string) string {
	sum := sha256.Sum256([]byte(member))
	return name + "-report-" + hex.EncodeToString(sum[:8])
}

// partName is the Secret of a part of it.
func partName(report, sum string) string { return report + "-" + sum }

// sumOf names a part.
func sumOf(part []byte) string {
	sum := sha256.Sum256(part)
	return hex.EncodeToString(sum[:16])
}

// packed are the files of a report in parts. Equal files are equal parts.
type packed struct {
	head  []byte
	parts [][]byte
	files []map[string][]byte // of the parts
}

// pack divides files into parts that are not too large. Objects stay in their part while others come and go, and a part of
// before, with the very same files, is taken as it is.
func pack(files map[string][]byte, size int, before packed) (packed, error) {
	few := map[string][]byte{} // not of objects
	copies := map[string][]byte{}
	for name, text := range files {
		if strings.Contains(name, "/") {
			copies[name] = text
		} else {
			few[name] = text
		}
	}
	if len(copies) <= partFiles {
		if all := zip(files); len(all) <= size {
			return packed{head: all}, nil
		}
	}
	p := packed{head: zip(few)}
	if len(p.head) > size {
		return packed{}, errTooLarge
	}
	n := 1
	for n < len(copies)/partFiles {
		n *= 2
	}
	for ; n <= maxParts; n *= 2 {
		divided := make([]map[string][]byte, n)
		for name, text := range copies {
			sum := sha256.Sum256([]byte(name))
			i := binary.BigEndian.Uint64(sum[:]) % uint64(n)
			if divided[i] == nil {
				divided[i] = map[string][]byte{}
			}
			divided[i][name] = text
		}
		p.parts, p.files = nil, nil
		for _, some := range divided {
			if some == nil {
				continue
			}
			i := slices.IndexFunc(before.files, func(had map[string][]byte) bool { return maps.EqualFunc(had, some, identical) })
			if i >= 0 {
				p.parts = append(p.parts, before.parts[i])
			} else {
				p.parts = append(p.parts, zip(some))
			}
			p.files = append(p.files, some)
		}
		if !slices.ContainsFunc(p.parts, func(part []byte) bool { return len(part) > size }) {
			return p, nil
		}
	}
	return packed{}, errTooLarge
}

// identical tells whether two texts are one, in memory.
func identical(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// zip writes files down, small.
func zip(files map[string][]byte) []byte {
	texts := make(map[string]string, len(files))
	for name, text := range files {
		texts[name] = string(text)
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	err := json.NewEncoder(w).Encode(texts)
	if err := errors.Join(err, w.Close()); err != nil {
		panic(err) // texts into memory
	}
	return out.Bytes()
}

// unzip reads files into others.
func unzip(part []byte, into map[string][]byte) error {
	r, err := gzip.NewReader(bytes.NewReader(part))
	if err != nil {
		return fmt.Errorf("%w: %w", errIncomplete, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxText+1))
	if err == nil && len(text) > maxText {
		err = errTooLarge
	}
	var files map[string]string
	if err == nil {
		err = json.Unmarshal(text, &files)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errIncomplete, err)
	}
	for name, text := range files {
		into[name] = []byte(text)
	}
	return nil
}

func newPoster(secrets typedcorev1.SecretInterface, name, author string, size int) *poster {
	return &poster{
		secrets: secrets, name: name, author: author, size: size,
		posted: map[string]*posted{}, names: map[string]string{}, doubts: map[string]string{},
	}
}

// poster writes reports. Its methods may be called from many goroutines, for one member by one at a time.
type poster struct {
	secrets typedcorev1.SecretInterface
	name    string // of the leader's Lease
	author  string
	size    int // of a part

	mu     sync.Mutex
	posted map[string]*posted // by member
	names  map[string]string  // of Secrets, with the member that they are of
	doubts map[string]string  // the version that is there of a report that may not be as we wrote it; empty if there is more
}

// posted is a report as it was written last.
type posted struct {
	version string // of the Secret; empty if there is none
	sum     string // of all that is in it; empty if that is not known
	parts   []string
	packed  packed
}

// post writes a report, unless it is the one that is there.
func (p *poster) post(ctx context.Context, member string, files map[string][]byte) error {
	p.mu.Lock()
	was := p.posted[member]
	_, doubted := p.doubts[member]
	delete(p.doubts, member)
	p.mu.Unlock()
	if doubted && was != nil {
		next, err := p.verify(ctx, member, *was)
		if err != nil {
			p.mu.Lock()
			p.doubt(member, "")
			p.mu.Unlock()
			return err
		}
		was = next
	}
	last := packed{}
	if was != nil {
		last = was.packed
	}
	packed, err := pack(files, p.size, last)
	if err != nil {
		return err
	}
	s := p.secret(reportName(p.name, member), map[string][]byte{keyMember: []byte(member), keyAuthor: []byte(p.author), keyHead: packed.head})
	var parts []string
	for _, part := range packed.parts {
		parts = append(parts, sumOf(part))
	}
	if len(parts) > 0 {
		s.Data[keyParts] = []byte(strings.Join(parts, "\n"))
	}
	sum := sumOf(append(slices.Clone(packed.head), s.Data[keyParts]...))
	if was == nil {
		if was, err = p.found(ctx, s.Name); err != nil {
			return err
		}
	}
	if was.sum == sum {
		p.keep(member, was)
		return nil
	}
	for i, part := range packed.parts {
		if slices.Contains(was.parts, parts[i]) {
			continue
		}
		one := p.secret(partName(s.Name, parts[i]), map[string][]byte{keyPart: part})
		if _, err := p.secrets.Create(ctx, one, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("report on %s: %w", member, err)
		}
	}
	if s.ResourceVersion = was.version; was.version == "" {
		s, err = p.secrets.Create(ctx, s, metav1.CreateOptions{})
	} else {
		s, err = p.secrets.Update(ctx, s, metav1.UpdateOptions{})
	}
	if err != nil {
		p.forget(member) // somebody else may serve it, or did a moment ago
		return fmt.Errorf("report on %s: %w", member, err)
	}
	p.keep(member, &posted{s.ResourceVersion, sum, parts, packed})
	for _, old := range was.parts {
		if !slices.Contains(parts, old) {
			// One that stays is in nobody's way, and the leader tidies up.
			_ = p.secrets.Delete(ctx, partName(s.Name, old), metav1.DeleteOptions{})
		}
	}
	return nil
}

// keep says that a report is there.
func (p *poster) keep(member string, as *posted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(member)
	p.posted[member] = as
	name := reportName(p.name, member)
	p.names[name] = member
	for _, sum := range as.parts {
		p.names[partName(name, sum)] = member
	}
}

// drop forgets a report. p.mu is held.
func (p *poster) drop(member string) {
	name := reportName(p.name, member)
	delete(p.names, name)
	if was := p.posted[member]; was != nil {
		for _, sum := range was.parts {
			delete(p.names, partName(name, sum))
		}
	}
	delete(p.posted, member)
}

// verify tells what of a report is still there as it was written. A part that somebody changed is written again.
func (p *poster) verify(ctx context.Context, member string, was posted) (*posted, error) {
	name := reportName(p.name, member)
	there, err := p.found(ctx, name)
	if err != nil {
		return nil, err
	}
	if there.version != was.version {
		was.version, was.sum = there.version, ""
	}
	var parts []string
	for _, sum := range was.parts {
		part, err := p.secrets.Get(ctx, partName(name, sum), metav1.GetOptions{})
		if err == nil && sumOf(part.Data[keyPart]) != sum {
			err = p.secrets.Delete(ctx, part.Name, metav1.DeleteOptions{})
			if err == nil {
				was.sum = ""
				continue
			}
		}
		switch {
		case apierrors.IsNotFound(err):
			was.sum = ""
		case err != nil:
			return nil, fmt.Errorf("read the last report: %w", err)
		default:
			parts = append(parts, sum)
		}
	}
	was.parts = parts
	return &was, nil
}

// doubt says that a report may not be there as it was written: it is looked at when it is posted next. p.mu is held.
func (p *poster) doubt(member, version string) {
	if was, doubted := p.doubts[member]; !doubted || was != "" {
		p.doubts[member] = version
	}
}

// doubted tells whether a report has to be posted, whatever is new of the member.
func (p *poster) doubted(member string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	version, doubted := p.doubts[member]
	if at := p.posted[member]; doubted && (at == nil || at.version == version) {
		delete(p.doubts, member) // it was seen before we knew that we had written it
		return false
	}
	return doubted
}

// watched takes in what becomes of the Secrets of reports, for the replica that wrote them. It implements observe.Sink.
type watched struct {
	poster   *poster
	doubtful chan struct{}     // receives after one is
	versions map[string]string // by Secret, as last seen
}

// Seen implements observe.Sink.
func (w *watched) Seen(o api.Object) {
	meta, _ := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	version, _ := meta["resourceVersion"].(string)
	was := w.versions[name]
	w.versions[name] = version
	p := w.poster
	p.mu.Lock()
	defer p.mu.Unlock()
	member := p.names[name]
	switch at := p.posted[member]; {
	case at == nil:
	case name != reportName(p.name, member): // a part, which nobody has to change
		if was != "" && was != version {
			p.doubt(member, "")
			signal(w.doubtful)
		}
	case at.version != version:
		p.doubt(member, version)
		signal(w.doubtful)
	}
}

// Lost implements observe.Sink.
func (w *watched) Lost(o api.Object) {
	meta, _ := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	w.lose(name)
}

func (w *watched) lose(name string) {
	delete(w.versions, name)
	p := w.poster
	p.mu.Lock()
	defer p.mu.Unlock()
	if member := p.names[name]; p.posted[member] != nil {
		p.doubt(member, "")
		signal(w.doubtful)
	}
}

// Listed implements observe.Sink.
func (w *watched) Listed(seen map[api.ID]bool, _ string) {
	there := map[string]bool{}
	for id := range seen {
		there[id.Name] = true
	}
	w.poster.mu.Lock()
	ours := slices.Collect(maps.Keys(w.poster.names))
	w.poster.mu.Unlock()
	for _, name := range slices.Concat(ours, slices.Collect(maps.Keys(w.versions))) {
		if !there[name] {
			w.lose(name)
		}
	}
}

// Broken implements observe.Sink. What was written is taken for being there until it can be watched again.
func (w *watched) Broken(error) {}

// found is the report that is there, which another replica may have written.
func (p *poster) found(ctx context.Context, name string) (*posted, error) {
	s, err := p.secrets.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return &posted{}, nil
	case err != nil:
		return nil, fmt.Errorf("read the last report: %w", err)
	}
	return &posted{version: s.ResourceVersion, parts: partsOf(s.Data[keyParts])}, nil
}

// forget says that others may write the report.
func (p *poster) forget(member string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(member)
	delete(p.doubts, member)
}

func (p *poster) secret(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{labelReport: p.name}}, Type: corev1.SecretTypeOpaque, Data: data,
	}
}

func partsOf(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	return strings.Split(string(text), "\n")
}

// board is where the leader reads reports. It implements pull.Board and observe.Sink.
type board struct {
	secrets typedcorev1.SecretInterface
	name    string
	news    chan struct{}
	now     func() time.Time

	mu      sync.Mutex
	listed  bool
	broken  error             // that was last met
	until   time.Time         // it counts: who watches meets it again before
	heads   map[string]*head  // by Secret
	parts   map[string]*piece // by Secret
	members map[string]*head  // the last report of each that is whole
	authors map[string]string // of the last report on each member that was whole, whether it is still there or not
}

// head is a report but for its parts.
type head struct {
	member, author, version string
	text                    []byte
	parts                   []string // Secrets
}

// piece is a part of a report.
type piece struct {
	text   []byte
	needed time.Time // when last
}

func newBoard(secrets typedcorev1.SecretInterface, name string, now func() time.Time) *board {
	return &board{
		secrets: secrets, name: name, news: make(chan struct{}, 1), now: now,
		heads: map[string]*head{}, parts: map[string]*piece{}, members: map[string]*head{}, authors: map[string]string{},
	}
}

// Seen implements observe.Sink.
func (b *board) Seen(o api.Object) {
	meta, _ := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	data, _ := o["data"].(map[string]any)
	value := func(key string) []byte {
		text, _ := data[key].(string)
		raw, _ := base64.StdEncoding.DecodeString(text)
		return raw
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if part := value(keyPart); len(part) > 0 {
		b.parts[name] = &piece{part, b.now()}
		signal(b.news)
		return
	}
	version, _ := meta["resourceVersion"].(string)
	h := &head{member: string(value(keyMember)), author: string(value(keyAuthor)), version: version, text: value(keyHead)}
	for _, sum := range partsOf(value(keyParts)) {
		h.parts = append(h.parts, partName(name, sum))
	}
	if h.member == "" || reportName(b.name, h.member) != name || len(h.parts) > maxParts {
		return // a person's
	}
	b.heads[name] = h
	signal(b.news)
}

// Lost implements observe.Sink.
func (b *board) Lost(o api.Object) {
	meta, _ := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(name)
}

// drop forgets a Secret. b.mu is held.
func (b *board) drop(name string) {
	if h := b.heads[name]; h != nil {
		delete(b.members, h.member)
	}
	delete(b.heads, name)
	delete(b.parts, name)
}

// Listed implements observe.Sink.
func (b *board) Listed(seen map[api.ID]bool, _ string) {
	there := map[string]bool{}
	for id := range seen {
		there[id.Name] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, all := range [][]string{slices.Collect(maps.Keys(b.heads)), slices.Collect(maps.Keys(b.parts))} {
		for _, name := range all {
			if !there[name] {
				b.drop(name)
			}
		}
	}
	b.listed = true
	signal(b.news)
}

// Broken implements observe.Sink.
func (b *board) Broken(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken, b.until = err, b.now().Add(2*watchRetry)
}

// List implements pull.Board: the version of each member's last report that is whole.
func (b *board) List(context.Context) (map[string]gitstate.Revision, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.now().Before(b.until):
		return nil, fmt.Errorf("the Secrets of reports cannot be watched: %w", b.broken)
	case !b.listed:
		return nil, pull.ErrNotYet
	}
	at := make(map[string]gitstate.Revision, len(b.heads))
	for _, h := range b.heads {
		if !slices.ContainsFunc(h.parts, func(name string) bool { return b.parts[name] == nil }) {
			b.members[h.member], b.authors[h.member] = h, h.author
		}
		if whole := b.members[h.member]; whole != nil {
			at[h.member] = gitstate.Revision(whole.version)
		}
	}
	return at, nil
}

// Fetch implements pull.Board.
func (b *board) Fetch(_ context.Context, members ...string) (map[string]store.Post, error) {
	posts := make(map[string]store.Post, len(members))
	for _, member := range members {
		b.mu.Lock()
		h := b.members[member]
		var texts [][]byte
		if h != nil {
			texts = append(texts, h.text)
			for _, name := range h.parts {
				if part := b.parts[name]; part != nil {
					texts = append(texts, part.text)
				}
			}
		}
		b.mu.Unlock()
		if h == nil {
			continue // it went this moment
		}
		files, err := map[string][]byte{}, error(nil)
		if len(texts) != 1+len(h.parts) {
			err = errIncomplete
		}
		for _, text := range texts {
			err = errors.Join(err, unzip(text, files))
		}
		posts[member] = store.Post{Revision: gitstate.Revision(h.version), FS: treeOf(files), Err: err}
	}
	return posts, nil
}

// author is the replica that made the last report on a member. That the Secret went says nothing of the replica: it
// writes it again as soon as it knows, and has not reported all that it knows until then.
func (b *board) author(member string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.authors[member]
}

// watchRetry is the longest pause before reports are watched again after a failure.
const watchRetry = 5 * time.Second

// unneeded is how long a part may be there that nothing names: whoever writes a report writes its parts first.
const unneeded = 10 * time.Minute

// tidy deletes reports on members that are no more, and parts that nobody needs. Only a leader may call it.
func (b *board) tidy(ctx context.Context, exists func(member string) bool) {
	now := b.now()
	b.mu.Lock()
	var rest []string
	for name, h := range b.heads {
		if !exists(h.member) {
			rest = append(rest, name)
			continue
		}
		for _, part := range h.parts {
			if p := b.parts[part]; p != nil {
				p.needed = now
			}
		}
	}
	maps.DeleteFunc(b.authors, func(member, _ string) bool { return !exists(member) })
	for name, p := range b.parts {
		if now.Sub(p.needed) > unneeded {
			rest = append(rest, name)
		}
	}
	b.mu.Unlock()
	for _, name := range rest {
		_ = b.secrets.Delete(ctx, name, metav1.DeleteOptions{}) // or the next time
	}
}
