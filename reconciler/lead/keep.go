package lead

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/store"
)

const (
	// partSize leaves room below the 1 MiB that the API allows a Secret.
	partSize = 900 << 10
	// maxParts bounds what is kept, to some 14 MiB.
	maxParts = 16
)

// ErrTooLarge says that there is more to keep than fits. It goes when the remote is back.
var ErrTooLarge = errors.New("too much is not pushed yet to be kept in Secrets")

// ErrOvertaken says that somebody else left something since we last did.
var ErrOvertaken = errors.New("another replica leads, or did meanwhile")

// Keeper keeps one bundle. The zero value is of no use; the fields are not changed once it is used.
//
// The Secret Name says what is kept, and has the beginning of the pack, which is nearly always all of it. The rest is in
// Secrets named after the pack's checksum: whoever writes one writes the same into it.
type Keeper struct {
	Secrets typedcorev1.SecretInterface
	Name    string

	size    int // of a part; 0 means partSize
	mu      sync.Mutex
	version string   // of the Secret Name as last read or written; empty if there was none
	parts   []string // the Secrets that it names
}

// label is on all Secrets of a Keeper; its value is the Name.
const label = "godwit.dev/unpushed"

// The keys of the Secrets.
const (
	keyBase  = "base"
	keyHead  = "head"
	keySum   = "sha256" // of the pack, in hex
	keyParts = "parts"  // how many Secrets it is in
	keyPack  = "pack"   // the bytes that are in this one
)

// partName of the Secrets from 1 on.
func (k *Keeper) partName(sum string, i int) string {
	return fmt.Sprintf("%s-%.16s-%d", k.Name, sum, i)
}

// Kept reads the bundle; it is one of nothing, with the head as its Base, where all was pushed, and false means that there never was one. It is
// called before the first Keep, and says what that may replace.
func (k *Keeper) Kept(ctx context.Context) (store.Bundle, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, err := k.kept(ctx)
	if err != nil {
		return store.Bundle{}, k.version != "", fmt.Errorf("read kept commits: %w", err)
	}
	return b, k.version != "", nil
}

func (k *Keeper) kept(ctx context.Context) (b store.Bundle, err error) {
	k.version, k.parts = "", nil
	s, err := k.Secrets.Get(ctx, k.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return b, nil
	}
	if err != nil {
		return b, err
	}
	k.version = s.ResourceVersion
	if len(s.Data[keyHead]) == 0 {
		return store.Bundle{Base: gitstate.Revision(s.Data[keyBase])}, nil
	}
	want := string(s.Data[keySum])
	parts, err := strconv.Atoi(string(s.Data[keyParts]))
	if err != nil || parts < 1 || parts > maxParts || len(want) != hex.EncodedLen(sha256.Size) {
		return b, fmt.Errorf("%w: Secret %s is not one that we wrote", store.ErrBundle, k.Name)
	}
	pack := slices.Clone(s.Data[keyPack])
	for i := 1; i < parts; i++ {
		part, err := k.Secrets.Get(ctx, k.partName(want, i), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return b, fmt.Errorf("%w: %w", store.ErrBundle, err)
		}
		if err != nil {
			return b, err
		}
		k.parts = append(k.parts, part.Name)
		pack = append(pack, part.Data[keyPack]...)
	}
	if sum(pack) != want {
		return b, fmt.Errorf("%w: what is in Secret %s does not match its checksum", store.ErrBundle, k.Name)
	}
	return store.Bundle{Base: gitstate.Revision(s.Data[keyBase]), Head: gitstate.Revision(s.Data[keyHead]), Pack: pack}, nil
}

func sum(pack []byte) string {
	s := sha256.Sum256(pack)
	return hex.EncodeToString(s[:])
}

// Keep replaces what is kept. When it returns without an error, the next leader finds it.
func (k *Keeper) Keep(ctx context.Context, b store.Bundle) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.keep(ctx, b); err != nil {
		return fmt.Errorf("keep commits for the next leader: %w", err)
	}
	return nil
}

func (k *Keeper) keep(ctx context.Context, b store.Bundle) error {
	all := slices.Collect(slices.Chunk(b.Pack, cmp.Or(k.size, partSize)))
	if len(all) > maxParts {
		return fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, len(b.Pack), maxParts*cmp.Or(k.size, partSize))
	}
	if len(all) == 0 {
		all = [][]byte{nil}
	}
	checksum := sum(b.Pack)
	var parts []string
	for i, part := range all[1:] {
		s := k.secret(k.partName(checksum, i+1), map[string][]byte{keyPack: part})
		if _, err := k.Secrets.Create(ctx, s, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		parts = append(parts, s.Name)
	}
	s := k.secret(k.Name, map[string][]byte{
		keyBase: []byte(b.Base), keyHead: []byte(b.Head), keySum: []byte(checksum),
		keyParts: []byte(strconv.Itoa(len(all))), keyPack: all[0],
	})
	s.ResourceVersion = k.version
	var err error
	if k.version == "" {
		s, err = k.Secrets.Create(ctx, s, metav1.CreateOptions{})
	} else {
		s, err = k.Secrets.Update(ctx, s, metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %w", ErrOvertaken, err)
	case err != nil:
		return err
	}
	old := k.parts
	k.version, k.parts = s.ResourceVersion, parts
	for _, name := range old {
		if !slices.Contains(parts, name) {
			// One that stays is in nobody's way, and the next leader tidies up.
			_ = k.Secrets.Delete(ctx, name, metav1.DeleteOptions{})
		}
	}
	return nil
}

func (k *Keeper) secret(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: k.Name}},
		Type:       corev1.SecretTypeOpaque, Data: data,
	}
}

// Tidy deletes parts that nothing names: a leader died while it wrote them. Only a leader may call it, after Kept.
func (k *Keeper) Tidy(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	all, err := k.Secrets.List(ctx, metav1.ListOptions{LabelSelector: label + "=" + k.Name})
	if err != nil {
		return fmt.Errorf("list kept commits: %w", err)
	}
	for _, s := range all.Items {
		if s.Name != k.Name && !slices.Contains(k.parts, s.Name) {
			if err := k.Secrets.Delete(ctx, s.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete kept commits that nobody needs: %w", err)
			}
		}
	}
	return nil
}

// Forget says that nothing has to be kept any more: all of it is pushed, up to a head.
func (k *Keeper) Forget(ctx context.Context, pushed gitstate.Revision) error {
	return k.Keep(ctx, store.Bundle{Base: pushed})
}
