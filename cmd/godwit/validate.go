package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/remote"
	"github.com/godwit-gitops/godwit/gitstate/source"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
	"github.com/godwit-gitops/godwit/render"
)

func newValidate() *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use:   "validate [PATH...]",
		Short: "Print every finding of the source, offline",
		Long: `validate reads the source as it is on disk and prints every finding with file, line and code; nothing if
all is well. Findings of severity error end it with status 3.

The source is, whichever is said first:
  what --source names, or a file given by --config;
  the folder that --path, GODWIT_SOURCE_PATH or source.path of a godwit.yaml in this folder names, in the
  repository that this folder is in. The repository that godwit.yaml names is not asked: offline is offline;
  a folder that is the only PATH: it is the source, as if nothing were around it;
  this folder.

Other PATHs, files or folders, choose whose findings are printed; the rest of the source is read all the same,
since policies and templates belong together. If this folder is not in the repository that the PATHs are in,
that repository is the source.

With --changed-since REV it prints the findings in files that changed since HEAD left REV (a branch, a tag, a
commit, HEAD, origin/main), whether that is committed, staged or only on disk, and those elsewhere that
are new because of the change: of a policy, say, whose only template was deleted. A hook asks for
--changed-since HEAD, a pull request for --changed-since origin/main.

Names of files are relative to this folder in text, and to the repository (or the source, if that is in none) with
-o json and -o sarif, as forges expect. Names within a message are relative to the source.`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			c, output, err := configured(cmd)
			if err != nil {
				return err
			}
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(400) // the process ends soon
			}
			t, findings, err := c.validate(cmd.Context(), since, paths)
			if err != nil {
				return err
			}
			switch output {
			case "json":
				err = writeJSON(cmd.OutOrStdout(), map[string]any{"findings": called(findings, t.inRepository)})
			case "sarif":
				err = writeJSON(cmd.OutOrStdout(), report.SARIF(version, "", called(findings, t.inRepository)))
			default:
				err = report.Findings(cmd.OutOrStdout(), style(cmd, cmd.OutOrStdout()), called(findings, t.fromHere))
			}
			if err != nil {
				return err
			}
			if slices.ContainsFunc(findings, func(f render.Finding) bool { return f.Severity == render.Error }) {
				return &statusError{status: exitFindings}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&since, "changed-since", "", "print only what concerns the files changed since HEAD left this revision")
	return printing(cmd, "text", "json", "sarif")
}

// validated is the source that is looked at.
type validated struct {
	fsys gitstate.HashFS
	// dir and path are its folder on disk; dir is empty for a repository that is read as it was pushed.
	dir, path string
	// repository is the one that it is in, empty for none, and within where in it.
	repository, within string
}

// root is the source's folder.
func (t *validated) root() string { return filepath.Join(t.dir, filepath.FromSlash(t.path)) }

// validate returns the findings of the source: those below the paths, if there are any, and what is new since
// a revision, if that is given.
func (c *Config) validate(ctx context.Context, since string, paths []string) (*validated, []render.Finding, error) {
	defer c.progress.doing("reading and checking the source")()
	t, below, done, err := c.toValidate(ctx, paths)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	options, err := c.withKeys(c.options())
	if err != nil {
		return nil, nil, err
	}
	in := decide.Input{Now: time.Now(), Options: options, Memo: decide.NewMemo()}
	in.Source.FS = t.fsys
	var findings []render.Finding
	if since == "" {
		findings = decide.Findings(in)
	} else if findings, err = t.changed(ctx, in, since); err != nil {
		return nil, nil, fmt.Errorf("--changed-since: %w", err)
	}
	if err := unread(in); err != nil {
		return nil, nil, err
	}
	if len(below) == 0 {
		return t, findings, nil
	}
	return t, slices.DeleteFunc(findings, func(f render.Finding) bool {
		return !slices.ContainsFunc(below, func(p string) bool { return p == "." || f.File == p || strings.HasPrefix(f.File, p+"/") })
	}), nil
}

// toValidate opens the source. Of the paths it returns those that choose findings, relative to the source.
func (c *Config) toValidate(ctx context.Context, paths []string) (t *validated, below []string, done func(), err error) {
	fail := func(err error) (*validated, []string, func(), error) { return nil, nil, nil, err }
	if c.sourceGiven && c.sourceDir == "" {
		src, done, err := c.openSource(true)
		if err != nil {
			return fail(err)
		}
		snapshot, err := at(ctx, src, "")
		if err != nil {
			done()
			return fail(err)
		}
		t = &validated{fsys: snapshot.FS.(gitstate.HashFS), within: filepath.ToSlash(filepath.Clean(c.Source.Path))}
		// What is here is taken for a work tree of it.
		if below, err = t.below(c.Source.Path, paths); err != nil {
			done()
			return fail(err)
		}
		return t, below, done, nil
	}
	t, paths = c.atHand(paths)
	snapshot, err := source.OpenFolder(t.dir, t.path).Fetch(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !c.sourceGiven && t.path != "":
		return fail(fmt.Errorf("source.path: there is no folder %s here; name the source with --source", t.root()))
	case err != nil:
		return fail(fmt.Errorf("read the source: %w", err))
	}
	t.fsys = snapshot.FS.(gitstate.HashFS)
	if below, err = t.below(t.root(), paths); err != nil {
		return fail(err)
	}
	if t.repository = repositoryOf(t.root()); t.repository != "" {
		within, err := relative(t.repository, []string{t.root()})
		if err != nil {
			return fail(err)
		}
		t.within = within[0]
	}
	return t, below, func() {}, nil
}

// below makes paths relative to the source, whose folder is root. All of them are there.
func (t *validated) below(root string, paths []string) ([]string, error) {
	below, err := relative(root, paths)
	for i, p := range below {
		if _, err := fs.Stat(t.fsys, p); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: there is no such file or folder in the source", paths[i])
		}
	}
	return below, err
}

// atHand finds the source among what is on disk. It returns the paths that are left to choose findings.
func (c *Config) atHand(paths []string) (*validated, []string) {
	if c.sourceDir != "" {
		return &validated{dir: c.sourceDir, path: c.Source.Path}, paths
	}
	here := repositoryOf(".")
	configured := &validated{dir: cmp.Or(here, "."), path: c.Source.Path}
	isConfigured := path.Clean(filepath.ToSlash(c.Source.Path)) != "."
	if len(paths) == 1 {
		if info, err := os.Stat(paths[0]); err == nil && info.IsDir() {
			if _, err := relative(configured.root(), paths); err != nil || !isConfigured {
				return &validated{dir: paths[0]}, nil
			}
		}
	}
	if isConfigured {
		return configured, paths
	}
	if len(paths) > 0 {
		if there := repositoryOf(paths[0]); there != here && there != "" {
			return &validated{dir: there}, paths
		}
		if _, err := relative(".", paths); err != nil && here != "" {
			return &validated{dir: here}, paths // from a folder of it, beside that of the paths
		}
	}
	return &validated{dir: "."}, paths
}

// changed returns the findings of what is there now that concern what changed since a revision.
func (t *validated) changed(ctx context.Context, in decide.Input, since string) ([]render.Finding, error) {
	switch {
	case t.dir == "":
		return nil, errors.New("needs a work tree; name its folder with --source")
	case t.repository == "":
		return nil, fmt.Errorf("%s is in no Git repository", t.root())
	}
	var before gitstate.HashFS
	r, err := remote.New(remote.Options{URL: t.repository})
	if err != nil {
		return nil, err
	}
	local, err := source.OpenLocal(source.Options{Remote: r, Path: t.within})
	if err != nil {
		return nil, err
	}
	defer local.Close()
	snapshot, err := local.Since(ctx, since)
	switch {
	case errors.Is(err, remote.ErrEmpty) && since == "HEAD": // before the first commit
	case errors.Is(err, fs.ErrNotExist): // the folder is new
	case err != nil:
		return nil, err
	default:
		before = snapshot.FS.(gitstate.HashFS)
	}
	changed, err := source.Changed(before, t.fsys)
	if err != nil {
		return nil, err
	}
	now := decide.Findings(in)
	if before == nil {
		return now, nil
	}
	// What did not change is in the memo by now and is not read from Git.
	in.Source.FS = before
	old := map[render.Finding]int{}
	for _, f := range decide.Findings(in) {
		old[still(f)]++
	}
	return slices.DeleteFunc(now, func(f render.Finding) bool {
		if changed[f.File] {
			return false
		}
		old[still(f)]--
		return old[still(f)] >= 0
	}), nil
}

// lineOf is the line of a file within a message. It moves with what is above it.
var lineOf = regexp.MustCompile(`(\.ya?ml|\.json|Kustomization):[0-9]+`)

// still is the finding as it is told from others when lines of files move.
func still(f render.Finding) render.Finding {
	f.Line, f.Message = 0, lineOf.ReplaceAllString(f.Message, "$1")
	return f
}

// fromHere is a file of the source as it is called from this folder, or whole where that is shorter.
func (t *validated) fromHere(file string) string {
	here, err := filepath.Abs(".")
	if err != nil || t.dir == "" {
		return file
	}
	full, err := filepath.Abs(filepath.Join(t.root(), filepath.FromSlash(file)))
	if err != nil {
		return file
	}
	if rel, err := filepath.Rel(here, full); err == nil && len(rel) <= len(full) {
		return rel
	}
	return full
}

// inRepository is a file of the source as its repository knows it.
func (t *validated) inRepository(file string) string { return path.Join(t.within, file) }

// called are the findings with their files under other names.
func called(findings []render.Finding, name func(file string) string) []render.Finding {
	all := make([]render.Finding, len(findings))
	for i, f := range findings {
		if f.File != "" {
			f.File = name(f.File)
		}
		all[i] = f
	}
	return all
}

// relative makes paths relative to the source's root.
func relative(root string, paths []string) ([]string, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	var below []string
	for _, p := range paths {
		full, err := filepath.Abs(p)
		if err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(abs, full)
		if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			return nil, fmt.Errorf("%s is not in the source %s; name the source with --source", p, root)
		}
		below = append(below, path.Clean(filepath.ToSlash(rel)))
	}
	return below, nil
}
