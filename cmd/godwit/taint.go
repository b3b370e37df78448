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
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/remote"
	"github.com/godwit-gitops/godwit/gitstate/source"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler/report"
	"github.com/godwit-gitops/godwit/render/kustomize"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/policy"
)

const taintHelp = `It edits the Cluster manifest in the source, and nothing else in its file, and commits that: in a folder that is
the work tree of a repository to the branch that is checked out there, else, with the URL of a repository, to
the branch that godwit follows. In a folder of no repository it writes the file. The reconciler acts on it as on
any other commit. A Cluster that a kustomization makes is not edited.`

func newCordon() *cobra.Command {
	return taintCommand("cordon NAME...", "Keep new workloads off members", cobra.MinimumNArgs(1), completeClusters,
		"cordon puts the taint "+policy.Cordoned.ToString()+" on members: nothing new is scheduled there, what runs stays.",
		func(args []string) (names []string, e taintEdit, err error) {
			return args, taintEdit{verb: "cordon", done: "cordoned", idle: "already cordoned", change: func(old []corev1.Taint) ([]corev1.Taint, error) {
				if slices.ContainsFunc(old, isCordon) {
					return old, nil
				}
				return append(old, policy.Cordoned), nil
			}}, nil
		}, nil)
}

func newUncordon() *cobra.Command {
	return taintCommand("uncordon NAME...", "Let new workloads come to members again", cobra.MinimumNArgs(1), completeClusters,
		"uncordon takes the taint "+policy.Cordoned.ToString()+" off members.",
		func(args []string) (names []string, e taintEdit, err error) {
			return args, taintEdit{verb: "uncordon", done: "uncordoned", idle: "already uncordoned", change: func(old []corev1.Taint) ([]corev1.Taint, error) {
				return slices.DeleteFunc(old, isCordon), nil
			}}, nil
		}, nil)
}

func isCordon(t corev1.Taint) bool { return t.MatchTaint(&policy.Cordoned) }

func newTaint() *cobra.Command {
	var overwrite bool
	return taintCommand("taint NAME KEY=VALUE:EFFECT...", "Put taints on a member, or take them off", cobra.MinimumNArgs(2), completeCluster,
		`taint takes taints as kubectl does: KEY=VALUE:EFFECT or KEY:EFFECT to put one on, KEY:EFFECT- to take it off, KEY- to take
all of that key off. The effects of clusters are NoSchedule and NoExecute.`,
		func(args []string) (names []string, e taintEdit, err error) {
			c, err := policy.ParseTaintChange(args[1:])
			c.Overwrite = overwrite
			return args[:1], taintEdit{verb: "taint", what: strings.Join(args[1:], " "), done: "tainted", idle: "tainted so already", change: c.Apply}, err
		}, func(cmd *cobra.Command) {
			cmd.Flags().BoolVar(&overwrite, "overwrite", false, "give a taint that is there already another value")
		})
}

// taintEdit is a change of taints and the words for it.
type taintEdit struct {
	verb, what, done, idle string
	change                 func([]corev1.Taint) ([]corev1.Taint, error)
	// edit does something else to the source; nil means that change is done to the taints.
	edit func(r *edited, fsys fs.FS) (after []byte, err error)
}

func taintCommand(use, short string, args cobra.PositionalArgs, complete cobra.CompletionFunc, long string, read func(args []string) ([]string, taintEdit, error), flags func(*cobra.Command)) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long + "\n\n" + taintHelp, Args: args, ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, output, err := configured(cmd)
			if err != nil {
				return err
			}
			names, e, err := read(args)
			if err != nil {
				return err
			}
			results := []edited{}
			for _, name := range names {
				var r edited
				if r, err = c.editCluster(cmd.Context(), name, e, dryRun); err != nil {
					break
				}
				results = append(results, r)
			}
			return errors.Join(printEdited(cmd, results, e, output, dryRun), err) // what was done is said in any case
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would change in the file, and change nothing")
	if flags != nil {
		flags(cmd)
	}
	return printing(cmd, "text", "json", "yaml")
}

// edited is what became of one Cluster manifest.
type edited struct {
	Cluster string `json:"cluster"`
	// File is relative to the source.
	File string `json:"file"`
	// Diff is empty if nothing had to change.
	Diff string `json:"diff"`
	// Branch and Commit are empty where nothing was committed.
	Branch string `json:"branch,omitempty"`
	Commit string `json:"commit,omitempty"`
}

func printEdited(cmd *cobra.Command, results []edited, e taintEdit, output string, dryRun bool) error {
	w := cmd.OutOrStdout()
	switch output {
	case "json":
		return writeJSON(w, map[string]any{"items": results})
	case "yaml":
		return writeYAML(w, map[string]any{"items": results})
	}
	for _, r := range results {
		words := e.done
		switch {
		case r.Diff == "":
			words = e.idle
		case dryRun:
			report.PrintDiff(w, style(cmd, w), r.Diff)
			words += " (dry run)"
		case r.Commit != "":
			words += fmt.Sprintf(" (%s, commit %.10s on %s)", r.File, r.Commit, r.Branch)
		default:
			words += fmt.Sprintf(" (%s)", r.File)
			fmt.Fprintf(cmd.ErrOrStderr(), "godwit: %s was written and not committed: the folder is in no repository\n", r.File)
		}
		fmt.Fprintf(w, "cluster/%s %s\n", report.Flat(r.Cluster), report.Flat(words))
	}
	return nil
}

// editCluster edits a manifest where the source is.
func (c *Config) editCluster(ctx context.Context, name string, e taintEdit, dryRun bool) (edited, error) {
	r, err := edited{Cluster: name}, error(nil)
	message := store.Message{Subject: e.verb + "(" + name + ")", When: time.Now()}
	if e.what != "" {
		message.Subject += ": " + e.what
	}
	switch {
	case c.sourceDir != "":
		err = c.editFolder(ctx, &r, e, message, dryRun)
	case c.Source.URL != "":
		err = c.editRemote(ctx, &r, e, message, dryRun)
	default:
		_, _, err = c.openSource(false) // says what is missing
	}
	if err != nil {
		return r, fmt.Errorf("%s %s: %w", e.verb, name, err)
	}
	return r, nil
}

// editFolder edits the file on disk, and commits it if the folder is a work tree.
func (c *Config) editFolder(ctx context.Context, r *edited, e taintEdit, m store.Message, dryRun bool) error {
	snapshot, err := source.OpenFolder(c.sourceDir, c.Source.Path).Fetch(ctx)
	if err != nil {
		return err
	}
	after, err := r.edit(snapshot.FS, e)
	if err != nil || r.Diff == "" || dryRun {
		return err
	}
	file, err := filepath.Abs(filepath.Join(c.sourceDir, c.Source.Path, filepath.FromSlash(r.File)))
	if err != nil {
		return err
	}
	root := repositoryOf(filepath.Dir(file))
	if root == "" {
		return store.WriteFile(file, after)
	}
	name, err := filepath.Rel(root, file)
	if err != nil {
		return err
	}
	var who store.Signature
	who.Name, who.Email = remote.Person(root)
	branch, head, err := store.CommitFile(root, filepath.ToSlash(name), after, who, m)
	r.Branch, r.Commit = branch, string(head)
	return err
}

// editRemote commits to the branch that is followed, and pushes. Losing a race means to edit what is there then.
func (c *Config) editRemote(ctx context.Context, r *edited, e taintEdit, m store.Message, dryRun bool) error {
	from, err := c.Source.Auth.remote(c.Source.URL)
	if err != nil {
		return fmt.Errorf("source.url: %w", err)
	}
	if r.Branch = c.Source.Branch; r.Branch == "" {
		if r.Branch, err = from.DefaultBranch(ctx); err != nil {
			return err
		}
	}
	const attempts = 10
	for attempt := 1; ; attempt++ {
		err := c.tryEdit(ctx, from, r, e, m, dryRun)
		if !errors.Is(err, gitstate.ErrConflict) || attempt == attempts {
			return err
		}
	}
}

// tryEdit works in a clone of its own: what could not be pushed goes with it.
func (c *Config) tryEdit(ctx context.Context, from *remote.Remote, r *edited, e taintEdit, m store.Message, dryRun bool) error {
	dir, err := os.MkdirTemp("", "godwit-source-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var who store.Signature
	who.Name, who.Email = remote.Person("")
	s, err := store.Open(ctx, store.Options{Remote: from, Branch: r.Branch, Dir: dir, Author: who})
	if err != nil {
		return err
	}
	defer s.Close()
	tree, err := s.Load(ctx)
	switch {
	case err != nil:
		return err
	case tree.Offline != nil:
		return tree.Offline
	case tree.Head == "":
		return fmt.Errorf("%s has no branch %s", from, r.Branch)
	}
	below, err := fs.Sub(tree.FS, path.Clean(filepath.ToSlash(cmp.Or(c.Source.Path, "."))))
	if err != nil {
		return fmt.Errorf("source.path: %w", err)
	}
	after, err := r.edit(below, e)
	if err != nil || r.Diff == "" || dryRun {
		return err
	}
	file := path.Join(filepath.ToSlash(c.Source.Path), r.File)
	head, err := s.Commit(ctx, tree.Head, []store.Change{{Path: file, Data: after}}, m)
	if err != nil {
		return err
	}
	if err := s.Push(ctx); err != nil {
		return err
	}
	r.Commit = string(head)
	return nil
}

var errNoManifest = errors.New("the source has no such Cluster manifest")

// edit finds the manifest in a source and returns its file as it is to be; nil if there is to be none.
func (r *edited) edit(fsys fs.FS, e taintEdit) (after []byte, err error) {
	if e.edit != nil {
		return e.edit(r, fsys)
	}
	before, at, err := r.find(fsys)
	if err != nil {
		return nil, err
	}
	if after, err = manifest.EditTaints(before, r.Cluster, e.change); err != nil {
		return nil, fmt.Errorf("%s: %w", at.Origin, err)
	}
	r.Diff = report.Diff(r.File, string(before), string(after))
	return after, nil
}

// place is where a manifest is, and how many objects are in its file besides.
type place struct {
	manifest.Origin
	others int
}

// find finds the manifest in a source, and returns its file.
func (r *edited) find(fsys fs.FS) (before []byte, at place, err error) {
	var found []*manifest.Object
	files := map[string]int{}
	var known []string
	for _, u := range manifest.Read(fsys, manifest.Options{Build: kustomize.Build}) {
		for _, o := range u.Objects {
			files[o.Origin.File]++
			switch {
			case o.Group != clusterv1alpha1.Group || o.Kind != "Cluster":
			case o.Name == r.Cluster:
				found = append(found, o)
			default:
				known = append(known, o.Name)
			}
		}
	}
	switch {
	case len(found) == 0:
		slices.Sort(known)
		return nil, at, fmt.Errorf("%w: %w", errNoManifest, noMember(slices.Compact(known)))
	case len(found) > 1:
		return nil, at, fmt.Errorf("the Cluster is in the source twice, in %s and in %s; remove one", found[0].Origin, found[1].Origin)
	case found[0].Origin.Line == 0:
		return nil, at, fmt.Errorf("the Cluster comes out of %s; edit what that is made from", found[0].Origin.File)
	}
	r.File = found[0].Origin.File
	if info, err := fs.Lstat(fsys, r.File); err != nil {
		return nil, at, err
	} else if !info.Mode().IsRegular() {
		return nil, at, fmt.Errorf("%s is a link; edit what it points to", r.File)
	}
	before, err = fs.ReadFile(fsys, r.File)
	return before, place{found[0].Origin, files[r.File] - 1}, err
}
