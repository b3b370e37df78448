//go:build realcluster

package install

import (
	"bytes"
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What the Dockerfile builds, from the repository and from a copy in another folder: the same bytes, which need nothing of
// the system and know nothing of where they were built. It compiles everything anew, which takes minutes the first time.
func TestTheProgramOfTheImage(t *testing.T) {
	here, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	there := t.TempDir()
	if err := fs.WalkDir(os.DirFS(here), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == ".git" || path == "bin": // as Dockerfile.dockerignore
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(there, path), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(filepath.Join(here, path))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(there, path), text, 0o644)
	}); err != nil {
		t.Fatal(err)
	}
	env, args := buildCommand(t)
	var programs [][]byte
	for _, dir := range []string{here, there} {
		out := filepath.Join(t.TempDir(), "godwit")
		replace := strings.NewReplacer("/out/godwit", out, "$VERSION", "v1.2.3")
		build := []string{"build"}
		for _, a := range args {
			build = append(build, replace.Replace(a))
		}
		c := exec.Command("go", build...)
		c.Dir, c.Env = dir, append(os.Environ(), env...)
		if said, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go %q: %v\n%s", build, err, said)
		}
		program, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, program)
		if bytes.Contains(program, []byte(dir+"/")) {
			t.Errorf("the program knows that it was built in %s", dir)
		}
		run := exec.Command(out, "version")
		run.Env, run.Dir = []string{}, "/"
		if said, err := run.CombinedOutput(); err != nil || string(said) != "v1.2.3\n" {
			t.Errorf("version, with no environment at all: %v, %s", err, said)
		}
	}
	if !bytes.Equal(programs[0], programs[1]) {
		t.Error("two folders give two programs")
	}
	file, err := elf.NewFile(bytes.NewReader(programs[0]))
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("the program needs a dynamic linker, which the image does not have")
	}
}
