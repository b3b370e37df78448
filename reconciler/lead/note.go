package lead

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// noteData is where a Note is in its Secret.
const noteData = "note"

// Note is a line that a leader leaves the next one, in the Secret Name. One goroutine at a time may use it.
type Note struct {
	Secrets typedcorev1.SecretInterface
	Name    string

	known   bool
	version string // of the Secret where known; empty if there is none
}

// Note is the one of that name in this election.
func (e *Election) Note(name string) *Note {
	return &Note{Secrets: e.secrets, Name: e.options.Name + "-" + name}
}

// Read gives the line; empty if there is none.
func (n *Note) Read(ctx context.Context) (string, error) {
	n.known = false
	s, err := n.Secrets.Get(ctx, n.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		n.known, n.version = true, ""
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read the Secret %s: %w", n.Name, err)
	}
	n.known, n.version = true, s.ResourceVersion
	return string(s.Data[noteData]), nil
}

// Write replaces the line. The error is ErrOvertaken if somebody else did since it was last read or written: theirs stands
// until the next Write.
func (n *Note) Write(ctx context.Context, line string) error {
	if !n.known {
		if _, err := n.Read(ctx); err != nil {
			return err
		}
	}
	n.known = false
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, ResourceVersion: n.version},
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{noteData: []byte(line)},
	}
	var err error
	if n.version == "" {
		s, err = n.Secrets.Create(ctx, s, metav1.CreateOptions{})
	} else {
		s, err = n.Secrets.Update(ctx, s, metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %w", ErrOvertaken, err)
	case err != nil:
		return fmt.Errorf("write the Secret %s: %w", n.Name, err)
	}
	n.known, n.version = true, s.ResourceVersion
	return nil
}
