package pull

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/godwit-gitops/godwit/gitstate"
)

// mark says which commit of the state branch is in force, and when it was decided.
type mark struct {
	Branch string            `json:"branch,omitempty"`
	Head   gitstate.Revision `json:"head"`
	Passed time.Time         `json:"passed"`
}

// markSize bounds a file that says so, in bytes.
const markSize = 1 << 10

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// readMark reads a file; zero if there is none, or one of another branch.
func readMark(file, branch string) (m mark, err error) {
	if file == "" {
		return mark{}, nil
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, markSize))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil && m.Head == "" {
		err = errors.New("it names no commit")
	}
	if err != nil {
		return mark{}, fmt.Errorf("%s: is not a file that we wrote: %w", file, err)
	}
	if m.Branch != branch {
		return mark{}, nil
	}
	return m, nil
}

// write replaces the file at once.
func (m mark) write(file string) error {
	if file == "" {
		return nil
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // it is gone by then, if all goes well
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
