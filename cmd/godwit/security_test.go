package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// goFiles calls do for each Go file of the repository, with its path from the root.
func goFiles(t *testing.T, do func(name string, f *ast.File, at *token.FileSet)) {
	t.Helper()
	at := token.NewFileSet()
	if err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin" || name == "testdata/membercluster"): // the last is another module
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		f, err := parser.ParseFile(at, filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err == nil {
			do(name, f, at)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// What SECURITY.md names is there: each row has tests that hold it, and a place where it is done.
func TestWhatTheSecurityTableNamesIsThere(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	goFiles(t, func(name string, f *ast.File, _ *token.FileSet) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasSuffix(name, "_test.go") {
				tests[fn.Name.Name] = true
			}
		}
	})
	var (
		quoted = regexp.MustCompile("`[^`]+`")
		test   = regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`)
		script = regexp.MustCompile(`^\w+\.txtar$`)
	)
	exists := func(word string) bool {
		switch {
		case test.MatchString(word):
			return tests[word]
		case script.MatchString(word):
			word = filepath.Join("testdata/script", word)
		}
		_, err := os.Stat(filepath.Join(root, word))
		return err == nil
	}
	rows := 0
	for i, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, "|")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| threat ") || strings.HasPrefix(line, "| ---") {
			for _, word := range quoted.FindAllString(line, -1) {
				if word = strings.Trim(word, "`"); (test.MatchString(word) || script.MatchString(word)) && !exists(word) {
					t.Errorf("SECURITY.md:%d: there is no %s", i+1, word)
				}
			}
			continue
		}
		rows++
		if len(cells) != 6 {
			t.Errorf("SECURITY.md:%d: %d cells, want threat, what is done, where, held by", i+1, len(cells)-2)
			continue
		}
		for what, cell := range map[string]string{"where": cells[3], "held by": cells[4]} {
			words := quoted.FindAllString(cell, -1)
			if len(words) == 0 {
				t.Errorf("SECURITY.md:%d: nothing is named under %q", i+1, what)
			}
			for _, word := range words {
				word = strings.Trim(word, "`")
				if isTest := test.MatchString(word) || script.MatchString(word); isTest != (what == "held by") || !exists(word) {
					t.Errorf("SECURITY.md:%d: under %q there is no %s", i+1, what, word)
				}
			}
		}
	}
	if rows < 40 {
		t.Errorf("SECURITY.md has %d rows", rows)
	}
}

// TLS is never what a default makes of it: whoever makes a configuration says which version is the lowest, and nobody
// turns verification off but the clients of members, whose credentials may say so.
func TestTLSIsNeverLeftToDefaults(t *testing.T) {
	made := 0
	goFiles(t, func(name string, f *ast.File, at *token.FileSet) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if !selects(n.Type, "tls", "Config") {
					return true
				}
				made++
				lowest := false
				for _, e := range n.Elts {
					kv, _ := e.(*ast.KeyValueExpr)
					if key, _ := kv.Key.(*ast.Ident); key.Name == "MinVersion" {
						lowest = selects(kv.Value, "tls", "VersionTLS12") || selects(kv.Value, "tls", "VersionTLS13")
					}
				}
				if !lowest {
					t.Errorf("%s: a tls.Config without MinVersion: tls.VersionTLS12", at.Position(n.Pos()))
				}
			case *ast.Ident:
				if n.Name == "InsecureSkipVerify" {
					t.Errorf("%s: the server is not verified", at.Position(n.Pos()))
				}
			case *ast.SelectorExpr:
				for _, word := range []string{"DefaultClient", "DefaultTransport", "Get", "Post", "PostForm", "Head"} {
					if selects(n, "http", word) {
						t.Errorf("%s: http.%s has no limits of ours; make a client", at.Position(n.Pos()), word)
					}
				}
			}
			return true
		})
	})
	if made < 3 {
		t.Errorf("%d configurations were found", made)
	}
}

// selects tells whether an expression is pkg.name.
func selects(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg && s.Sel.Name == name
}

// The tools that look at what we are made of run with our rights: they are versions, and so with a hash that Go checks. What
// CI says of vulnerabilities stops nothing, as what is known changes without a commit.
func TestSupplyChainToolsArePinned(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"VULNCHECK", "SBOM"} {
		if !regexp.MustCompile(`(?m)^` + tool + ` += [a-zA-Z0-9./-]+@v\d+\.\d+\.\d+$`).Match(text) {
			t.Errorf("%s names no version", tool)
		}
	}
	ci, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^make vulncheck \|\| echo `).Match(ci) {
		t.Error("CI does not look for known vulnerabilities, or ends with them")
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil || regexp.MustCompile(`(?m)^\s*replace\b`).Match(sum) {
		t.Errorf("a module is replaced, which is not what its name says: %v", err)
	}
}
