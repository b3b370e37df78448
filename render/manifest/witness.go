package manifest

import (
	"io/fs"

	"github.com/godwit-gitops/godwit/render/sops"
)

// witness is a file system that remembers the files that were read and that SOPS may have encrypted, with their content.
type witness struct {
	fs.FS
	files map[string][]byte
}

func (w witness) Open(name string) (fs.File, error) {
	f, err := w.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && !info.IsDir() {
		w.ReadFile(name) // of what is open now, nobody knows what will be read
	}
	return f, nil
}

// ReadFile implements fs.ReadFileFS.
func (w witness) ReadFile(name string) ([]byte, error) {
	data, err := fs.ReadFile(w.FS, name)
	if err == nil && sops.Mentions(data) {
		w.files[name] = data
	}
	return data, err
}

// Stat implements fs.StatFS.
func (w witness) Stat(name string) (fs.FileInfo, error) { return fs.Stat(w.FS, name) }

// ReadDir implements fs.ReadDirFS.
func (w witness) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(w.FS, name) }
