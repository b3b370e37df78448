package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const examplesCI = "../../examples/ci"

func readCI(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(examplesCI, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestWorkflowsGiveStrangersNothing holds what keeps a pull request of a fork harmless: nothing of it is in a command,
// no token of a job that reads its files may write, and no event runs its files with a token that may.
func TestWorkflowsGiveStrangersNothing(t *testing.T) {
	for _, c := range []struct {
		file, on string
		rights   map[string]string // of the job that plans
	}{
		{"github.yml", "pull_request", map[string]string{"contents": "read", "pull-requests": "write"}}, // which forks do not get
		{"gitea.yml", "pull_request", map[string]string{"contents": "read", "pull-requests": "write"}},
		{"github-forks.yml", "workflow_run", map[string]string{"contents": "read"}},
	} {
		text := readCI(t, c.file)
		var f workflow
		if err := yaml.UnmarshalStrict(text, new(any)); err != nil {
			t.Errorf("%s: %v", c.file, err)
		}
		if err := yaml.Unmarshal(text, &f); err != nil {
			t.Fatalf("%s: %v", c.file, err)
		}
		if events, ok := f.On.(map[string]any); f.On != c.on && (!ok || len(events) != 1 || events[c.on] == nil) {
			t.Errorf("%s: on %v, want %s alone", c.file, f.On, c.on)
		}
		rights := f.Jobs["plan"].Permissions
		if rights == nil {
			rights = f.Permissions
		}
		if !maps.Equal(rights, c.rights) {
			t.Errorf("%s: the plan has %v, want %v", c.file, rights, c.rights)
		}
		for name, j := range f.Jobs {
			for _, s := range j.Steps {
				if strings.Contains(s.Run, "${{") {
					t.Errorf("%s: job %s runs what an expression says: %s", c.file, name, s.Run)
				}
				if s.Uses != "" && !regexp.MustCompile(`^actions/[a-z-]+@v[0-9]+$`).MatchString(s.Uses) {
					t.Errorf("%s: job %s uses %s", c.file, name, s.Uses)
				}
				if ref, ok := s.With["ref"]; ok {
					t.Errorf("%s: job %s checks out %v", c.file, name, ref)
				}
				for variable, value := range s.Env {
					if variable == "COMMENT_TOKEN" != (value == "${{ github.token }}") {
						t.Errorf("%s: %s is %s", c.file, variable, value)
					}
				}
			}
		}
		if regexp.MustCompile(`\$\{\{[^}]*secrets`).Match(text) {
			t.Errorf("%s: names secrets", c.file)
		}
	}
}

// TestHookIsOneOfOurs compares what pre-commit is told with what this repository offers.
func TestHookIsOneOfOurs(t *testing.T) {
	var config struct {
		Repos []struct {
			Repo, Rev string
			Hooks     []struct{ ID string }
		}
	}
	if err := yaml.UnmarshalStrict(readCI(t, "pre-commit-config.yaml"), &config); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../.pre-commit-hooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var offered []struct{ ID string }
	if err := yaml.Unmarshal(text, &offered); err != nil {
		t.Fatal(err)
	}
	for _, hook := range config.Repos[0].Hooks {
		if !slices.Contains(offered, hook) {
			t.Errorf("%s is none of %v", hook.ID, offered)
		}
	}
}

// TestCommandLinesOfExamplesParse takes every line of the examples that calls godwit, and lets the real flags read it.
func TestCommandLinesOfExamplesParse(t *testing.T) {
	files, err := filepath.Glob(examplesCI + "/*")
	if err != nil {
		t.Fatal(err)
	}
	call := regexp.MustCompile(`(?m)^[\t $]*godwit ([a-z-]+(?: .*)?)$`)
	var seen []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		joined := strings.ReplaceAll(string(text), "\\\n", " ")
		for _, m := range call.FindAllStringSubmatch(joined, -1) {
			line, _, _ := strings.Cut(m[1], " >")
			line, _, _ = strings.Cut(line, " ||")
			var args []string
			for _, word := range strings.Fields(line) {
				switch word = strings.Trim(word, `"`); word {
				case "$@":
				case "$as":
					args = append(args, "json")
				default:
					args = append(args, word)
				}
			}
			cmd, rest, err := newRoot(func() {}).Find(args)
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: godwit %s: %v", filepath.Base(file), line, err)
			}
			seen = append(seen, filepath.Base(file)+" "+args[0])
		}
	}
	for _, want := range []string{"plan.sh plan", "pre-commit validate"} {
		if !slices.Contains(seen, want) {
			t.Errorf("no %s among %v", want, seen)
		}
	}
}

// TestScriptsAreForAnyShell finds what only bash would run; the rest is run by the scripts' tests.
func TestScriptsAreForAnyShell(t *testing.T) {
	for _, name := range []string{"plan.sh", "comment.sh", "pre-commit"} {
		text := readCI(t, name)
		if !strings.HasPrefix(string(text), "#!/bin/sh\n") || !strings.Contains(string(text), "\nset -eu\n") {
			t.Errorf("%s: begins with #!/bin/sh, and has set -eu", name)
		}
		if m := regexp.MustCompile(`(?m)\[\[|\bfunction [a-z_]+ *\{|<\(|\blocal |\$'|&>|pipefail|\becho -`).Find(text); m != nil {
			t.Errorf("%s: %s is not for any shell", name, m)
		}
		info, err := os.Stat(filepath.Join(examplesCI, name))
		if err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s: cannot be executed: %v", name, err)
		}
	}
}
