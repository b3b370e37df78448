package pack

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// Modes of tree entries, as Git writes them.
const (
	ModeDir        uint32 = 0o040000
	ModeFile       uint32 = 0o100644
	ModeExecutable uint32 = 0o100755
	ModeSymlink    uint32 = 0o120000
	ModeSubmodule  uint32 = 0o160000
)

// Entry is one line of a tree.
type Entry struct {
	Name string
	Mode uint32
	Hash plumbing.Hash
}

// IsDir says whether the entry is a tree.
func (e Entry) IsDir() bool { return e.Mode == ModeDir }

// CompareNames is Git's order within a tree: bytewise, a folder's name as if it ended in a slash.
func CompareNames(a string, aDir bool, b string, bDir bool) int {
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	return cmp.Compare(next(a, aDir, n), next(b, bDir, n))
}

func next(name string, dir bool, i int) int {
	switch {
	case i < len(name):
		return int(name[i])
	case dir:
		return '/'
	}
	return -1
}

func compareEntries(a, b Entry) int { return CompareNames(a.Name, a.IsDir(), b.Name, b.IsDir()) }

// EncodeTree returns the content of a tree. The entries must be in Git's order; a name that git fsck would not let
// pass (empty, with a slash, a disguise of ".git", twice) is an error.
func EncodeTree(entries []Entry) ([]byte, error) {
	size := 0
	for _, e := range entries {
		size += len("100644 ") + len(e.Name) + 1 + len(e.Hash)
	}
	b := make([]byte, 0, size)
	for i, e := range entries {
		if err := CheckName(e.Name); err != nil {
			return nil, err
		}
		if i > 0 && compareEntries(entries[i-1], e) >= 0 {
			return nil, fmt.Errorf("tree entry %q is out of order", e.Name)
		}
		if e.IsDir() {
			if _, twice := slices.BinarySearchFunc(entries[:i], Entry{Name: e.Name}, compareEntries); twice {
				return nil, fmt.Errorf("tree entry %q is both a file and a folder", e.Name)
			}
		}
		b = strconv.AppendUint(b, uint64(e.Mode), 8)
		b = append(append(append(b, ' '), e.Name...), 0)
		b = append(b, e.Hash[:]...)
	}
	return b, nil
}

// DecodeTree reads the content of a tree; the entries keep its order, which it checks.
func DecodeTree(data []byte) ([]Entry, error) {
	entries := make([]Entry, 0, len(data)/40)
	names := string(data) // one allocation that all names share
	for at := 0; at < len(data); {
		space := bytes.IndexByte(data[at:], ' ')
		if space < 0 {
			return nil, damaged("tree entry %d has no mode", len(entries))
		}
		mode, err := strconv.ParseUint(names[at:at+space], 8, 32)
		if err != nil {
			return nil, damaged("tree entry %d has mode %q", len(entries), names[at:at+space])
		}
		at += space + 1
		end := bytes.IndexByte(data[at:], 0)
		if end <= 0 || at+end+1+len(plumbing.ZeroHash) > len(data) {
			return nil, damaged("tree entry %d is cut off", len(entries))
		}
		e := Entry{Name: names[at : at+end], Mode: uint32(mode)}
		at += end + 1
		at += copy(e.Hash[:], data[at:])
		if n := len(entries); n > 0 && compareEntries(entries[n-1], e) >= 0 {
			return nil, damaged("tree entry %q is out of order", e.Name)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// CheckName refuses names that cannot be an entry of a tree, or that some file system would take for ".git" or
// ".gitmodules": git fsck --strict refuses them, and so do forges on a push.
func CheckName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%q cannot be a name in a Git tree", name)
	}
	if c := name[0] | 0x20; c != '.' && c != 'g' && c < 0x80 {
		return nil // the common case; the rest reads the name as HFS+ and NTFS would
	}
	seen := strings.Map(visible, strings.ToLower(name))
	if cut := strings.IndexAny(seen, `:\`); cut >= 0 {
		seen = seen[:cut]
	}
	switch seen = strings.TrimRight(seen, " ."); {
	case seen == ".git", seen == "git~1", seen == ".gitmodules", strings.HasPrefix(seen, "gitmod~"), strings.HasPrefix(seen, "gi7eba~"):
		return fmt.Errorf("%q cannot be a name in a Git tree: file systems may take it for Git's own %q", name, seen)
	}
	return nil
}

// visible drops the code points that HFS+ ignores in names.
func visible(r rune) rune {
	switch {
	case 0x200c <= r && r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x206a <= r && r <= 0x206f, r == 0xfeff:
		return -1
	}
	return r
}
