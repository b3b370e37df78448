// Package regular opens files of folders that others write to, such as repositories and checked out configuration. A pipe
// or a device in the place of a file is an error: to open or to read one may wait for ever, and nothing can end that.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotRegular says that something else has the name of a file.
var ErrNotRegular = errors.New("is no regular file")

// ErrTooLarge says that a file is larger than its kind ever is.
var ErrTooLarge = errors.New("is too large")

// Open opens a file for reading.
func Open(name string) (*os.File, error) {
	described, err := os.Stat(name) // a device is not even opened: that may do something
	if err != nil {
		return nil, err
	}
	if err := check(name, described); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	return checked(name, f, err, false)
}

// checked is an open file if it is one, or may be a folder.
func checked(name string, f *os.File, err error, folder bool) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	described, err := f.Stat()
	if err == nil && !(folder && described.IsDir()) {
		err = check(name, described)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func check(name string, described fs.FileInfo) error {
	switch {
	case described.IsDir():
		return &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	case !described.Mode().IsRegular():
		return &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	return nil
}

// ReadFile returns a file's content; more than most bytes are an error.
func ReadFile(name string, most int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w: more than %d bytes", ErrTooLarge, most)}
	}
	if err != nil {
		return nil, err
	}
	return content, nil
}

// FS is what is below a folder. Links in it that lead out are not followed.
type FS struct{ root *os.Root }

// OpenFS opens a folder.
func OpenFS(dir string) (FS, error) {
	root, err := os.OpenRoot(dir)
	return FS{root}, err
}

// Open implements fs.FS.
func (f FS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	described, err := f.root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !described.IsDir() {
		if err := check(name, described); err != nil {
			return nil, err
		}
	}
	opened, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	return file(checked(name, opened, err, true))
}

// file keeps a nil pointer out of the interface.
func file(f *os.File, err error) (fs.File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Close ends the reading.
func (f FS) Close() error { return f.root.Close() }
