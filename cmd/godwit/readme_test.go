package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// What the README shows of a plan is what the script of that plan has seen.
func TestTheREADMEShowsARealPlan(t *testing.T) {
	root := filepath.Join("..", "..")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	script, err := txtar.ParseFile(filepath.Join(root, "testdata", "script", "text_readme.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range script.Files {
		if f.Name == "want.txt" && !strings.Contains(string(readme), "--what-if\n"+strings.TrimRight(string(f.Data), "\n")+"\n```\n") {
			t.Errorf("the README does not show it as it is:\n%s", f.Data)
		}
	}
}
