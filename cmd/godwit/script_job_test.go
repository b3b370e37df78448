package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"
)

// workflow is what is used of a workflow of GitHub, Gitea and Forgejo.
type workflow struct {
	Env         map[string]string       `json:"env"`
	On          any                     `json:"true"` // YAML 1.1 takes "on" for a boolean
	Permissions map[string]string       `json:"permissions"`
	Jobs        map[string]*workflowJob `json:"jobs"`
	Name        string                  `json:"name"`
}

type workflowJob struct {
	If          string            `json:"if"`
	Env         map[string]string `json:"env"`
	Needs       string            `json:"needs"`
	Outputs     map[string]string `json:"outputs"`
	Permissions map[string]string `json:"permissions"`
	Steps       []workflowStep    `json:"steps"`
}

type workflowStep struct {
	Name string            `json:"name"`
	ID   string            `json:"id"`
	If   string            `json:"if"`
	Uses string            `json:"uses"`
	With map[string]any    `json:"with"`
	Run  string            `json:"run"`
	Env  map[string]string `json:"env"`
}

// pipelineJob is what is used of a job of GitLab.
type pipelineJob struct {
	Script    []string          `json:"script"`
	Variables map[string]string `json:"variables"`
	Artifacts struct{ Paths []string }
}

// pullRequest makes pull request 7 of a folder's files, from a commit of main, and what a merge of it would be.
func (w *world) pullRequest(ts *testscript.TestScript, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return errors.New("usage: pullrequest DIR [REV]")
	}
	from := "main"
	if len(args) == 2 {
		from = args[1]
	}
	disk, err := readTree(ts.MkAbs(args[0]))
	if err != nil {
		return err
	}
	base, main := w.repo.Files(from), w.repo.Head("main")
	changes := map[string]string{}
	for name, text := range disk {
		if base[name] != string(text) {
			changes[name] = string(text)
		}
	}
	for name := range base {
		if _, ok := disk[name]; !ok {
			changes[name] = ""
		}
	}
	w.repo.Git("update-ref", "refs/heads/topic", from)
	head := w.repo.Commit("topic", changes, "a change\n")
	w.repo.Git("update-ref", "refs/heads/topic", main.String())
	merged := w.repo.Commit("topic", changes, "both\n")
	tree := w.repo.Git("rev-parse", merged.String()+"^{tree}")
	merge := w.repo.Git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit-tree", "-p", main.String(), "-p", head.String(), "-m", "merge", tree)
	w.repo.Git("update-ref", "-d", "refs/heads/topic") // it may be a fork's
	w.repo.Git("update-ref", "refs/pull/7/head", head.String())
	w.repo.Git("update-ref", "refs/pull/7/merge", merge)
	w.repo.Git("update-ref", "refs/merge-requests/7/head", head.String())
	ts.Setenv("PULL_HEAD", head.String())
	return nil
}

// job runs a job of one of the workflows in examples/ci as a runner would: actions by what they come to, and the
// commands as they are.
func (w *world) job(ts *testscript.TestScript, args []string) error {
	if len(args) < 2 || w.forge == nil {
		return errors.New("usage, after forge: job FILE NAME [CONTEXT=VALUE...]")
	}
	text := []byte(ts.ReadFile(filepath.Join(ts.Getenv("EXAMPLES_CI"), args[0])))
	r, err := w.newRunner(ts)
	if err != nil {
		return err
	}
	for _, given := range args[2:] {
		name, value, _ := strings.Cut(given, "=")
		if strings.ToUpper(name) == name {
			r.env[name] = value
		} else {
			r.contexts[name] = value
		}
	}
	if w.forge.name == "gitlab" {
		var jobs map[string]pipelineJob
		if err := yaml.Unmarshal(text, &jobs); err != nil {
			return err
		}
		j, ok := jobs[args[1]]
		if !ok {
			return fmt.Errorf("%s has no job %s", args[0], args[1])
		}
		return r.pipeline(j)
	}
	var f workflow
	if err := yaml.Unmarshal(text, &f); err != nil {
		return err
	}
	j := f.Jobs[args[1]]
	if j == nil {
		return fmt.Errorf("%s has no job %s", args[0], args[1])
	}
	return r.workflow(f, args[1], j)
}

// runner is a machine that runs one job.
type runner struct {
	w        *world
	ts       *testscript.TestScript
	dir      string            // the workspace
	env      map[string]string // of each command
	contexts map[string]string // what expressions may name
	failed   error             // of an earlier step
}

// newRunner has no godwit until it is installed.
func (w *world) newRunner(ts *testscript.TestScript) (*runner, error) {
	w.jobs++
	work := ts.Getenv("WORK")
	r := &runner{w: w, ts: ts, dir: filepath.Join(work, fmt.Sprintf("job%d", w.jobs)), env: w.forge.environment()}
	godwit, err := exec.LookPath("godwit")
	if err != nil {
		return nil, err
	}
	stub, gobin := r.dir+".stub", r.dir+".gobin"
	path := slices.DeleteFunc(filepath.SplitList(ts.Getenv("PATH")), func(dir string) bool { return dir == filepath.Dir(godwit) })
	install := "#!/bin/sh\ntest \"$*\" = 'install github.com/godwit-gitops/godwit/cmd/godwit@latest' || { echo \"go: $*\" >&2; exit 1; }\n" +
		"ln -s " + godwit + " " + gobin + "/godwit\n"
	err = errors.Join(os.MkdirAll(r.dir, 0o755), os.MkdirAll(stub, 0o755), os.MkdirAll(gobin, 0o755), os.WriteFile(filepath.Join(stub, "go"), []byte(install), 0o755))
	maps.Copy(r.env, map[string]string{
		"PATH": strings.Join(append([]string{stub, gobin}, path...), string(filepath.ListSeparator)), "HOME": ts.Getenv("HOME"), "TMPDIR": work, "CI": "true",
		"COMMENT_RETRY_SECONDS": "0", "GODWIT_DATADIR": r.dir + ".data",
	})
	switch w.forge.name {
	case "gitlab":
		maps.Copy(r.env, map[string]string{
			"CI_JOB_URL": w.forge.server.URL + "/you/fleet/-/jobs/42", "CI_MERGE_REQUEST_PROJECT_URL": w.forge.server.URL + "/you/fleet",
			"CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": hostileBranch, "CI_COMMIT_SHA": w.repo.Git("rev-parse", "refs/merge-requests/7/head"),
			"CI_MERGE_REQUEST_DIFF_BASE_SHA": w.repo.Git("merge-base", "main", "refs/merge-requests/7/head"),
		})
	default:
		maps.Copy(r.env, map[string]string{
			"GITHUB_BASE_REF": "main", "GITHUB_HEAD_REF": hostileBranch, "GITHUB_RUN_ID": "42",
			"GITHUB_STEP_SUMMARY": r.dir + ".summary", "GITHUB_OUTPUT": r.dir + ".output",
		})
		r.contexts = map[string]string{"github.token": w.forge.token, "github.repository": "you/fleet", "github.event.pull_request.number": "7"}
		maps.Copy(r.contexts, w.outputs)
	}
	ts.Setenv("JOB", r.dir)
	return r, err
}

// hostileBranch is what a stranger may call a branch.
const hostileBranch = `x";touch${IFS}pwned;"$(touch${IFS}pwned)`

func (r *runner) workflow(f workflow, name string, j *workflowJob) error {
	if run, err := r.holds(cmp.Or(j.If, "always()")); err != nil || !run {
		return cmp.Or(err, errors.New("the job is skipped"))
	}
	for _, s := range j.Steps {
		run, err := r.holds(cmp.Or(s.If, "success()"))
		if err != nil {
			return fmt.Errorf("step %q: %w", cmp.Or(s.Name, s.Uses), err)
		}
		if !run {
			continue
		}
		if s.Uses != "" {
			err = r.use(s)
		} else {
			env := maps.Clone(r.env)
			for _, vars := range []map[string]string{f.Env, j.Env, s.Env} {
				for name, value := range vars {
					if env[name], err = r.filled(value); err != nil {
						return err
					}
				}
			}
			err = r.shell(s.Run, env)
		}
		if err != nil && r.failed == nil {
			r.failed = fmt.Errorf("step %q: %w", cmp.Or(s.Name, s.Uses), err)
		}
		if s.ID != "" {
			text, _ := os.ReadFile(r.env["GITHUB_OUTPUT"])
			for line := range strings.Lines(string(text)) {
				name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
				r.contexts["steps."+s.ID+".outputs."+name] = value
			}
		}
	}
	if r.w.outputs == nil {
		r.w.outputs = map[string]string{}
	}
	for output, value := range j.Outputs {
		v, err := r.filled(value)
		if err != nil && r.failed == nil {
			return err
		}
		r.w.outputs["needs."+name+".outputs."+output] = v
	}
	return r.failed
}

func (r *runner) pipeline(j pipelineJob) error {
	maps.Copy(r.env, j.Variables)
	depth := cmp.Or(j.Variables["GIT_DEPTH"], "20")
	if err := r.clone("refs/merge-requests/7/head", depth, "+refs/merge-requests/7/head:refs/remotes/origin/mr"); err != nil {
		return err
	}
	if _, ok := r.env["COMMENT_TOKEN"]; !ok {
		r.env["COMMENT_TOKEN"] = r.w.forge.token // a variable of the project
	}
	err := r.shell(strings.Join(j.Script, "\n"), r.env)
	for _, p := range j.Artifacts.Paths {
		err = errors.Join(err, r.copy(filepath.Join(r.dir, p), filepath.Join(r.ts.Getenv("WORK"), "artifacts", p)))
	}
	return err
}

var expression = regexp.MustCompile(`\$\{\{\s*(.*?)\s*\}\}`)

// filled replaces expressions that name a value.
func (r *runner) filled(s string) (string, error) {
	var missing error
	out := expression.ReplaceAllStringFunc(s, func(e string) string {
		v, err := r.value(expression.FindStringSubmatch(e)[1])
		missing = cmp.Or(missing, err)
		return v
	})
	return out, missing
}

func (r *runner) value(s string) (string, error) {
	if text, ok := strings.CutPrefix(s, "'"); ok {
		return strings.TrimSuffix(text, "'"), nil
	}
	v, ok := r.contexts[s]
	if !ok {
		return "", fmt.Errorf("the expression %s has no value here", s)
	}
	return v, nil
}

// holds decides on a condition: terms with && between.
func (r *runner) holds(condition string) (bool, error) {
	if m := expression.FindStringSubmatch(condition); m != nil {
		condition = m[1]
	}
	for term := range strings.SplitSeq(condition, " && ") {
		var holds bool
		left, right, equal := strings.Cut(term, " == ")
		if !equal {
			left, right, _ = strings.Cut(term, " != ")
		}
		switch {
		case term == "success()":
			holds = r.failed == nil
		case term == "always()" || term == "!cancelled()":
			holds = true
		case right == "":
			return false, fmt.Errorf("what is %q?", term)
		default:
			l, err := r.value(left)
			v, err2 := r.value(right)
			if err := errors.Join(err, err2); err != nil {
				return false, err
			}
			holds = (l == v) == equal
		}
		if !holds {
			return false, nil
		}
	}
	return true, nil
}

// use does what an action does, as far as the job can tell.
func (r *runner) use(s workflowStep) error {
	action, _, _ := strings.Cut(s.Uses, "@")
	artifact := filepath.Join(r.ts.Getenv("WORK"), "artifacts", fmt.Sprint(s.With["name"]))
	path := filepath.Join(r.dir, fmt.Sprint(s.With["path"]))
	switch action {
	case "actions/checkout":
		ref := r.env["GITHUB_REF"]
		if r.contexts["github.event.workflow_run.head_sha"] != "" {
			ref = "refs/heads/main"
		}
		depth := "1"
		if d, ok := s.With["fetch-depth"]; ok {
			depth = fmt.Sprint(d)
		}
		return r.clone(ref, depth, "+refs/heads/*:refs/remotes/origin/*", "+"+ref+":refs/remotes/pull")
	case "actions/setup-go":
		return nil
	case "actions/upload-artifact":
		return r.copy(path, artifact)
	case "actions/download-artifact":
		return r.copy(artifact, path)
	}
	return fmt.Errorf("what does %s do?", s.Uses)
}

func (r *runner) copy(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.CopyFS(to, os.DirFS(from)))
}

// clone checks a ref out, with no branch, as runners do.
func (r *runner) clone(ref, depth string, specs ...string) error {
	url := "file://" + r.w.repo.Dir
	fetch := append([]string{"fetch", "-q", "--no-tags", "origin"}, specs...)
	if depth != "0" {
		fetch = []string{"fetch", "-q", "--no-tags", "--depth", depth, "origin", "+" + ref + ":refs/remotes/pull"}
	}
	for _, args := range [][]string{{"init", "-q"}, {"remote", "add", "origin", url}, fetch, {"checkout", "-q", "--detach", r.w.repo.Git("rev-parse", ref)}} {
		cmd := exec.Command("git", append([]string{"-C", r.dir}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

func (r *runner) shell(script string, env map[string]string) error {
	cmd := exec.Command("sh", "-e", "-c", script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.dir, r.ts.Stdout(), r.ts.Stderr()
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd.Run()
}
