package simulate

import (
	"fmt"
	"io/fs"
	"maps"
	"time"

	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// Branch keeps what is decided, in order.
type Branch interface {
	// Commit adds a commit and returns its name. A person's has no reason.
	Commit(c Commit) (id string, err error)
	// Tree is the newest commit's.
	Tree() (fs.FS, error)
	// Push sends what was committed to where it outlives the machine.
	Push() error
}

// Commit is one commit of the branch.
type Commit struct {
	Subject, Body  string
	Reason         decide.Reason
	Source         string
	Time           time.Time
	Version        string
	Files          []record.File
	person, status bool
	id             string
	before         map[string][]byte // what Files replaced; nil for what was not there
}

// Person tells whether a person made it.
func (c Commit) Person() bool { return c.person }

// Memory is a Branch in memory.
type Memory struct {
	files Files
	n     int
}

// NewMemory is an empty one.
func NewMemory() *Memory { return &Memory{files: Files{}} }

// Commit implements Branch.
func (m *Memory) Commit(c Commit) (string, error) {
	next := maps.Clone(m.files)
	for _, f := range c.Files {
		if f.Data == nil {
			delete(next, f.Path)
		} else {
			next[f.Path] = f.Data
		}
	}
	m.files = next
	m.n++
	return fmt.Sprintf("%07d", m.n), nil
}

// Tree implements Branch.
func (m *Memory) Tree() (fs.FS, error) { return m.files, nil }

// Push implements Branch.
func (m *Memory) Push() error { return nil }

// content is a file of the tree, nil if it is not there.
func content(tree fs.FS, path string) []byte {
	data, err := fs.ReadFile(tree, path)
	if err != nil {
		return nil
	}
	return data
}

// reverse is a person's commit that takes back an earlier one.
func reverse(c Commit, now time.Time) Commit {
	back := Commit{Subject: fmt.Sprintf("Revert %q", c.Subject), Body: "This reverts commit " + c.id + ".", Time: now, person: true}
	for _, f := range c.Files {
		if f.Path != record.MetaPath { // times that only grow
			back.Files = append(back.Files, record.File{Path: f.Path, Data: c.before[f.Path]})
		}
	}
	return back
}
