package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwit-gitops/godwit/gitstate/source"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
	"github.com/godwit-gitops/godwit/render"
)

func newValidate() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [PATH...]",
		Short: "Print every finding of the source, offline",
		Long: `validate reads the source (what --source or the file given by --config names, or else the repository that
the paths are in, or else the folder it is called in) and prints every finding with file, line and code. It prints nothing if all is well. With paths it prints those of these files and folders alone; the rest of the
source is read all the same, since policies and templates belong together.`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			c, output, err := configured(cmd, "text", "json", "sarif")
			if err != nil {
				return err
			}
			findings, err := c.validate(cmd.Context(), paths)
			if err != nil {
				return err
			}
			switch output {
			case "json":
				err = writeJSON(cmd.OutOrStdout(), map[string]any{"findings": findings})
			case "sarif":
				err = writeJSON(cmd.OutOrStdout(), report.SARIF(version, findings))
			default:
				report.Findings(cmd.OutOrStdout(), style(cmd, cmd.OutOrStdout()), findings)
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
}

// validate decides on nothing but the source, and keeps the findings below the paths.
func (c *Config) validate(ctx context.Context, paths []string) ([]render.Finding, error) {
	var fsys fs.FS
	root := c.sourceDir
	if root == "" && !c.sourceGiven {
		// Offline is offline: what the configuration says of a repository is for the reconciler.
		root = "."
		if len(paths) > 0 {
			root = cmp.Or(repositoryOf(paths[0]), root)
		}
	}
	if root != "" {
		snapshot, err := source.OpenFolder(root, c.Source.Path).Fetch(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the source: %w", err)
		}
		fsys = snapshot.FS
	} else {
		src, done, err := c.openSource(true)
		if err != nil {
			return nil, err
		}
		defer done()
		snapshot, err := at(ctx, src, "")
		if err != nil {
			return nil, err
		}
		fsys = snapshot.FS
	}
	in := decide.Input{Now: time.Now(), Options: c.options()}
	in.Source.FS = fsys
	all := decide.Findings(in)
	below, err := relative(filepath.Join(root, c.Source.Path), paths)
	if err != nil || len(below) == 0 {
		return append([]render.Finding{}, all...), err
	}
	for i, p := range below {
		if _, err := fs.Stat(fsys, p); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: there is no such file or folder in the source", paths[i])
		}
	}
	findings := []render.Finding{}
	for _, f := range all {
		if slices.ContainsFunc(below, func(p string) bool { return p == "." || f.File == p || strings.HasPrefix(f.File, p+"/") }) {
			findings = append(findings, f)
		}
	}
	return findings, nil
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
