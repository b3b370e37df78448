package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/work"
)

func newRender() *cobra.Command {
	var state, cluster, dir string
	cmd := &cobra.Command{
		Use:   "render",
		Short: "Print the works: every object as each member gets it",
		Long: `render decides like "plan" and prints the rendered objects, as a YAML stream, with -o json as
{"items": [{"cluster": "m1", "object": {}}]}, or with --output-dir as a whole state tree that a later
call can take as --state. Values of Secrets stand as HMACs, as on the state branch.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, output, err := configured(cmd)
			if err != nil {
				return err
			}
			d, done, err := c.decideOnce(cmd.Context(), state)
			if err != nil {
				return err
			}
			defer done()
			if err := report.Findings(cmd.ErrOrStderr(), style(cmd, cmd.ErrOrStderr()), d.Findings); err != nil {
				return err
			}
			if cluster != "" && d.Next.Members[cluster] == nil {
				return fmt.Errorf("--cluster %s: %w", cluster, noMember(slices.Sorted(maps.Keys(d.Next.Members))))
			}
			works := worksOf(d.Next, cluster)
			switch {
			case dir != "":
				err = writeTree(dir, d.Next)
			case output == "json":
				err = renderJSON(cmd.OutOrStdout(), works)
			default:
				err = renderYAML(cmd.OutOrStdout(), works)
			}
			if err == nil && slices.ContainsFunc(d.Findings, func(f render.Finding) bool { return f.Severity == render.Error }) {
				return &statusError{status: exitFindings}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "previous state: a branch, a folder, or none (default: the state branch, if there is one)")
	cmd.Flags().StringVar(&cluster, "cluster", "", "only the works of this member")
	cmd.Flags().StringVar(&dir, "output-dir", "", "write the next state tree into this folder, which must be empty or missing")
	completeFlag(cmd, "cluster", completeClusters)
	return printing(cmd, "text", "yaml", "json")
}

// decideOnce decides. The texts of works can be read until done.
func (c *Config) decideOnce(ctx context.Context, stateName string) (_ *decide.Decision, done func(), err error) {
	defer c.progress.doing("deciding")()
	previous, done, err := c.readState(ctx, stateName)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	src, closeSource, err := c.openSource(true)
	if err != nil {
		return nil, nil, err
	}
	defer closeSource()
	snapshot, err := at(ctx, src, "")
	if err != nil {
		return nil, nil, err
	}
	d, err := c.decideOffline(ctx, src, snapshot, previous, decide.NewMemo())
	return d, done, err
}

func worksOf(s *record.State, cluster string) []record.Work {
	var works []record.Work
	for _, path := range slices.Sorted(maps.Keys(s.Works)) {
		if w := s.Works[path]; cluster == "" || w.Member == cluster {
			works = append(works, w)
		}
	}
	return works
}

// shown is the object as the state branch has it: without values of Secrets.
func shown(w record.Work) (api.Object, error) {
	w, err := record.Identify(w)
	if err != nil || !work.IsSecret(w.ID) {
		return w.Object, err
	}
	return canonical.Parse(w.Text())
}

func renderJSON(out io.Writer, works []record.Work) error {
	type item struct {
		Cluster string     `json:"cluster"`
		Object  api.Object `json:"object"`
	}
	list := struct {
		Items []item `json:"items"`
	}{Items: []item{}}
	for _, w := range works {
		o, err := shown(w)
		if err != nil {
			return err
		}
		list.Items = append(list.Items, item{w.Member, o})
	}
	return writeJSON(out, list)
}

func renderYAML(out io.Writer, works []record.Work) error {
	b := bufio.NewWriter(out)
	for _, w := range works {
		fmt.Fprintf(b, "---\n# %s\n%s", w.Path, w.Text())
	}
	return b.Flush()
}

// writeTree writes the state as the state branch would hold it.
func writeTree(dir string, s *record.State) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("--output-dir %s: is not empty; name a new folder", dir)
	}
	files, err := record.Diff(record.New(), s)
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
