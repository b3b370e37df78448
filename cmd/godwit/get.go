package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/inspect"
	"github.com/godwit-gitops/godwit/reconciler/member"
)

func newGet() *cobra.Command {
	var q inspect.Query
	var all bool
	var only []string
	cmd := &cobra.Command{
		Use:   "get KIND [NAME]",
		Short: "Show a resource in every member, with a CLUSTER column",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, output, err := configured(cmd, "text", "wide", "json", "yaml", "name")
			if err != nil {
				return err
			}
			q.Kind = args[0]
			if kind, name, ok := strings.Cut(q.Kind, "/"); ok && len(args) == 1 {
				q.Kind, q.Name = kind, name
			}
			if len(args) == 2 {
				q.Name = args[1]
			}
			if all {
				if q.Namespace = ""; q.Name != "" {
					return errors.New("a name and -A do not go together; say the namespace with -n")
				}
			}
			q.Objects = output == "json" || output == "yaml" || output == "name"
			members, err := c.members(cmd.Context(), only)
			if err != nil {
				return err
			}
			return printAnswers(cmd, inspect.Get(cmd.Context(), members, q), q, output, all)
		},
	}
	cmd.Flags().StringVarP(&q.Namespace, "namespace", "n", "default", "namespace")
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "all namespaces")
	cmd.Flags().StringVarP(&q.Selector, "selector", "l", "", "label selector")
	cmd.Flags().StringSliceVarP(&only, "clusters", "C", nil, "only these members")
	return cmd
}

// registrations are the members that the state branch and the source know, by name.
func (c *Config) registrations(ctx context.Context) (map[string]*clusterv1alpha1.Cluster, error) {
	d, err := c.decideOnce(ctx, "")
	if err != nil {
		return nil, err
	}
	return d.Next.Members, nil
}

// members finds the credentials of the members; without a source every context is one.
func (c *Config) members(ctx context.Context, only []string) (map[string]*rest.Config, error) {
	lookup := c.lookup()
	registered := map[string]*clusterv1alpha1.Cluster{}
	if c.Source.URL != "" || c.sourceDir != "" {
		var err error
		if registered, err = c.registrations(ctx); err != nil {
			return nil, err
		}
	} else {
		for _, name := range lookup.Contexts() {
			registered[name] = named(name)
		}
	}
	for _, name := range only {
		if registered[name] == nil {
			return nil, fmt.Errorf("--clusters %s: %w", name, noMember(slices.Sorted(maps.Keys(registered))))
		}
	}
	if len(registered) == 0 {
		return nil, errors.New("there are no members; push Cluster manifests to the source, or give --kubeconfig")
	}
	found := map[string]*rest.Config{}
	for name, cluster := range registered {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		config, _, err := lookup.Find(ctx, cluster)
		if err != nil {
			config = &rest.Config{Host: "https://" + name + ".invalid", Transport: failing{err}}
		}
		found[name] = config
	}
	return found, nil
}

// noMember says that there is no such member, and which there are.
func noMember(known []string) error {
	const most = 20
	switch n := len(known); {
	case n == 0:
		return errors.New("there is no such member, nor any other")
	case n > most:
		return fmt.Errorf("there is no such member; \"godwit clusters\" lists all %d, such as %s", n, strings.Join(known[:most], ", "))
	}
	return fmt.Errorf("there is no such member; there are %s", strings.Join(known, ", "))
}

func named(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func (c *Config) lookup() *member.Kubeconfig {
	if len(c.Clusters.Kubeconfig) > 0 {
		return member.NewKubeconfig(c.Clusters.Kubeconfig...)
	}
	if list := os.Getenv("KUBECONFIG"); list != "" {
		return member.NewKubeconfig(list)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return member.NewKubeconfig()
	}
	return member.NewKubeconfig(home + "/.kube/config")
}

// printAnswers prints what there is, then says who did not answer.
func printAnswers(cmd *cobra.Command, answers []inspect.Answer, q inspect.Query, output string, all bool) error {
	var failed []string
	items, rows, unserved := 0, 0, 0
	for _, a := range answers {
		if errors.Is(a.Err, inspect.ErrNoKind) {
			unserved++
		} else if a.Err != nil && !inspect.NotFound(a.Err) {
			failed = append(failed, a.Member)
			fmt.Fprintf(cmd.ErrOrStderr(), "godwit: %s: %v\n", a.Member, a.Err)
		}
		items += len(a.Items)
		if a.Table != nil {
			rows += len(a.Table.Rows)
		}
	}
	var err error
	switch {
	case q.Objects:
		err = printObjects(cmd.OutOrStdout(), answers, output)
	case rows > 0:
		printTable(cmd.OutOrStdout(), answers, all, output == "wide")
	}
	switch {
	case err != nil:
		return err
	case len(failed) > 0:
		return &statusError{exitMembers, fmt.Sprintf("%d of %d members did not answer: %s", len(failed), len(answers), strings.Join(failed, ", "))}
	case unserved > 0 && unserved == len(answers):
		return fmt.Errorf("no member serves a resource type %q; policies and Clusters are in the source: see \"godwit plan -o wide\" and \"godwit clusters\"", q.Kind)
	case items+rows == 0 && q.Name != "":
		return fmt.Errorf("%s %q is on no member", q.Kind, q.Name)
	case items+rows == 0 && all:
		fmt.Fprintln(cmd.ErrOrStderr(), "No resources found")
	case items+rows == 0:
		fmt.Fprintf(cmd.ErrOrStderr(), "No resources found in %s namespace.\n", q.Namespace)
	}
	return nil
}

// printTable prints one table: the columns of the first member that has rows, with CLUSTER after the
// name, as karmadactl puts it.
func printTable(out io.Writer, answers []inspect.Answer, all, wide bool) {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	var columns []string
	for _, a := range answers {
		if a.Table == nil || len(a.Table.Rows) == 0 {
			continue
		}
		if columns == nil {
			columns = inspect.Columns(a.Table, wide)
			heads := []string{}
			if all && a.Namespaced {
				heads = append(heads, "NAMESPACE")
			}
			for i, c := range columns {
				heads = append(heads, strings.ToUpper(c))
				if i == 0 {
					heads = append(heads, "CLUSTER")
				}
			}
			fmt.Fprintln(w, strings.Join(heads, "\t"))
		}
		for _, row := range inspect.Rows(a.Table, columns) {
			cells := []string{}
			if all && a.Namespaced {
				cells = append(cells, row.Namespace)
			}
			cells = append(cells, row.Cells[0], a.Member)
			cells = append(cells, row.Cells[1:]...)
			fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
	}
	w.Flush()
}

// annotationCluster tells in JSON and YAML which member an object is from.
const annotationCluster = "godwit.dev/cluster"

func printObjects(out io.Writer, answers []inspect.Answer, output string) error {
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{}}
	var all []any
	for _, a := range answers {
		for _, o := range a.Items {
			if output == "name" {
				id := api.IDOf(o)
				fmt.Fprintf(out, "%s/%s (%s)\n", strings.ToLower(id.Kind), id.Name, a.Member)
			}
			all = append(all, inspect.Annotated(o, annotationCluster, a.Member))
		}
	}
	if all != nil {
		list["items"] = all
	}
	switch output {
	case "json":
		return writeJSON(out, list)
	case "yaml":
		return writeYAML(out, list)
	}
	return nil
}

// age is as kubectl says it.
func age(since time.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return inspect.Age(time.Since(since))
}
