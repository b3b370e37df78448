package lead

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// keySize is that of the key that tells values of Secrets apart, in bytes.
const keySize = 32

// keyData is where it is in its Secret.
const keyData = "key"

// Key is the key that tells values of Secrets apart in the record. All replicas have the same one, or each change of the leader
// would look like a change of all Secrets: whoever comes first makes it, in the Secret NAME-key.
func (e *Election) Key(ctx context.Context) ([]byte, error) {
	key, err := e.key(ctx)
	if err != nil {
		return nil, fmt.Errorf("the key for secret values, which all replicas share: %w", err)
	}
	return key, nil
}

func (e *Election) key(ctx context.Context) ([]byte, error) {
	name := e.options.Name + "-key"
	s, err := e.secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		fresh := make([]byte, keySize)
		rand.Read(fresh)
		s, err = e.secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{keyData: fresh}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			s, err = e.secrets.Get(ctx, name, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, err
	}
	if key := s.Data[keyData]; len(key) >= 16 {
		return key, nil
	}
	return nil, fmt.Errorf("Secret %s/%s has no %q of at least 16 bytes; remove it to have one made", e.options.Namespace, name, keyData)
}
