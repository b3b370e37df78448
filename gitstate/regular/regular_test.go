package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/fstest"
)

func TestOnlyFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	name := func(base string) string { return filepath.Join(dir, base) }
	if err := errors.Join(
		os.WriteFile(name("file"), []byte("text"), 0o600),
		os.Mkdir(name("folder"), 0o700),
		syscall.Mkfifo(name("pipe"), 0o600),
		os.Symlink("pipe", name("link")),
		os.Symlink("file", name("good")),
		os.Symlink("/dev/zero", name("device")),
	); err != nil {
		t.Fatal(err)
	}
	below, err := OpenFS(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	for _, test := range []struct {
		base string
		want error
	}{
		{"file", nil}, {"good", nil}, {"folder", syscall.EISDIR}, {"pipe", ErrNotRegular}, {"link", ErrNotRegular},
		{"device", ErrNotRegular}, {"nothing", fs.ErrNotExist},
	} {
		content, err := ReadFile(name(test.base), 4)
		if !errors.Is(err, test.want) || test.want == nil && string(content) != "text" {
			t.Errorf("%s: %q, %v, want %v", test.base, content, err, test.want)
		}
		content, err = fs.ReadFile(below, test.base)
		switch {
		case test.base == "device": // it is outside, too
			if err == nil {
				t.Errorf("%s: is read", test.base)
			}
		case !errors.Is(err, test.want) || test.want == nil && string(content) != "text":
			t.Errorf("%s below the folder: %q, %v, want %v", test.base, content, err, test.want)
		}
	}
	if _, err := ReadFile(name("file"), 3); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a file of 4 bytes, of which 3 may be read: %v", err)
	}
}

func TestAFolderIsAFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "a"), 0o700), os.WriteFile(filepath.Join(dir, "a", "b"), []byte("c"), 0o600)); err != nil {
		t.Fatal(err)
	}
	below, err := OpenFS(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	if err := fstest.TestFS(below, "a/b"); err != nil {
		t.Error(err)
	}
}
