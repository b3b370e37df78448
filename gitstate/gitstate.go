// Package gitstate holds the words its subpackages share: what a snapshot of the source is, what a
// revision is, and how a lost race looks.
package gitstate

import (
	"errors"
	"io/fs"
)

// Revision names one immutable state of a branch: a commit hash in lower case hex. A folder that
// is read as it is on disk has "tree:" and a hash of its content instead. Empty means none.
type Revision string

// Snapshot is the source at one revision.
type Snapshot struct {
	Revision Revision
	// Branch is the branch read, empty for a folder.
	Branch string
	// FS holds the tree below the source's path and nothing else. It also implements HashFS.
	FS fs.FS
	// Message and Author are the commit's, empty for a folder.
	Message string
	Author  string
}

// HashFS is an fs.FS that knows a hash of each file's content and each folder's tree without reading it.
// Equal hashes mean equal content.
type HashFS interface {
	fs.FS
	// Hash returns the hash of the named file or folder, as fs.ValidPath names it.
	Hash(name string) (string, error)
}

// Unread returns the first error that kept a file system from reading what it has, such as one of the disk; nil if there was
// none, or if it does not know. What was read from it then is not all there is.
func Unread(fsys fs.FS) error {
	if f, ok := fsys.(interface{ Unread() error }); ok {
		return f.Unread()
	}
	return nil
}

// ErrConflict says that somebody else moved the state branch: load it and decide again.
var ErrConflict = errors.New("the state branch moved")

// Object is a commit as Git has it: its signature is over these bytes.
type Object struct {
	Revision Revision
	Data     []byte
}

// ErrHistory says that the history that is here does not go back far enough for an answer.
var ErrHistory = errors.New("the history does not go back far enough")
