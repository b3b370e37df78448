package notify

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Marker remembers up to which commit everything was delivered.
type Marker interface {
	// Read gives what was written last; empty if nothing was.
	Read(ctx context.Context) (string, error)
	// Write replaces it.
	Write(ctx context.Context, head string) error
}

// File is a Marker, by its name.
type File string

// Read gives what is in the file; empty if there is none.
func (f File) Read(context.Context) (string, error) {
	text, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return strings.TrimSpace(string(text)), err
}

// Write replaces the file at once.
func (f File) Write(_ context.Context, head string) error {
	temporary := string(f) + ".new"
	if err := os.WriteFile(temporary, []byte(head+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Clean(string(f)))
}
