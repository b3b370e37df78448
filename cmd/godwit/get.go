package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/inspect"
	"github.com/godwit-gitops/godwit/reconciler/member"
	"github.com/godwit-gitops/godwit/reconciler/report"
	"github.com/godwit-gitops/godwit/render/interpret"
)

func newGet() *cobra.Command {
	var q inspect.Query
	var all, aggregate bool
	var only []string
	cmd := &cobra.Command{
		Use:   "get KIND[,KIND...] [NAME...] | KIND/NAME...",
		Short: "Show a resource in every member, with a CLUSTER column, and in total",
		Long: `get asks every member at once and prints what kubectl would, with a CLUSTER column. Of an object that several members have, of a
kind whose status can be put together, a last row says in total: <all>. -o wide adds what the copy's health is by the rules
of its kind, customizations of the source included; -o json and yaml have it in the annotation godwit.dev/health.
With --aggregate one object stands for the copies of all members, with the status that the rules of its kind make of theirs.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, output, err := configured(cmd)
			if err != nil {
				return err
			}
			asked, err := resources(args)
			if err != nil {
				return err
			}
			named := slices.ContainsFunc(asked, func(r resourceArg) bool { return len(r.names) > 0 })
			switch {
			case all && named:
				return errors.New("a name and -A do not go together; say the namespace with -n")
			case q.Selector != "" && named:
				return errors.New("a name and -l do not go together")
			case aggregate && output == "name":
				return errors.New("--aggregate and -o name do not go together")
			case all:
				q.Namespace = ""
			}
			q.Objects = output == "json" || output == "yaml" || output == "name"
			q.Full = output == "wide"
			members, rules, err := c.members(cmd.Context(), only)
			if err != nil {
				return err
			}
			v := view{cmd: cmd, query: q, rules: rules, output: output, all: all, aggregate: aggregate, several: len(asked) > 1}
			end := c.progress.doing("asking the members")
			replies := askAll(cmd.Context(), members, q, asked)
			end()
			return v.print(replies)
		},
	}
	cmd.Flags().StringVarP(&q.Namespace, "namespace", "n", "default", "namespace")
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "all namespaces")
	cmd.Flags().StringVarP(&q.Selector, "selector", "l", "", "label selector")
	cmd.Flags().StringSliceVarP(&only, "clusters", "C", nil, "only these members")
	cmd.Flags().BoolVar(&aggregate, "aggregate", false, "one object for all members, with their statuses put together")
	completeFlag(cmd, "clusters", completeClusters)
	return printing(cmd, "text", "wide", "json", "yaml", "name")
}

// resourceArg is a kind that is asked for, by these names or whole.
type resourceArg struct {
	kind  string
	names []string
}

// resources reads "deploy,svc", "deploy web api" and "deploy/web svc/api" as kubectl does.
func resources(args []string) ([]resourceArg, error) {
	var asked []resourceArg
	if strings.Contains(args[0], "/") {
		for _, arg := range args {
			kind, name, ok := strings.Cut(arg, "/")
			if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
				return nil, fmt.Errorf("%q: after KIND/NAME every argument is one", arg)
			}
			at := slices.IndexFunc(asked, func(r resourceArg) bool { return r.kind == kind })
			if at < 0 {
				asked, at = append(asked, resourceArg{kind: kind}), len(asked)
			}
			asked[at].names = append(asked[at].names, name)
		}
		return asked, nil
	}
	for _, kind := range strings.Split(args[0], ",") {
		if kind == "" {
			return nil, fmt.Errorf("%q: a kind is missing between the commas", args[0])
		}
		asked = append(asked, resourceArg{kind: kind, names: args[1:]})
	}
	for _, name := range args[1:] {
		if strings.Contains(name, "/") {
			return nil, fmt.Errorf("%q: write KIND/NAME for every argument or for none", name)
		}
	}
	return asked, nil
}

// reply is what the members said to one question.
type reply struct {
	kind, name string
	answers    []inspect.Answer
}

func askAll(ctx context.Context, members map[string]*rest.Config, q inspect.Query, asked []resourceArg) [][]reply {
	replies := make([][]reply, len(asked))
	for i, r := range asked {
		q.Kind = r.kind
		names := r.names
		if len(names) == 0 {
			names = []string{""}
		}
		for _, q.Name = range names {
			replies[i] = append(replies[i], reply{q.Kind, q.Name, inspect.Get(ctx, members, q)})
		}
	}
	return replies
}

// registrations are the members that the state branch and the source know, by name.
func (c *Config) registrations(ctx context.Context) (map[string]*clusterv1alpha1.Cluster, error) {
	d, done, err := c.decideOnce(ctx, "")
	if err != nil {
		return nil, err
	}
	defer done()
	return d.Next.Members, nil
}

// members finds the credentials of the members, and what kinds mean; without a source every context is
// one, and kinds mean what is built in.
func (c *Config) members(ctx context.Context, only []string) (map[string]*rest.Config, *interpret.Interpreter, error) {
	lookup, err := c.openRegistry(slog.New(slog.DiscardHandler)) // who does not answer says so when asked
	if err != nil {
		return nil, nil, err
	}
	defer lookup.Close()
	waiting, cancel := context.WithTimeout(ctx, managementTime)
	defer cancel()
	lookup.Wait(waiting)
	registered, rules := map[string]*clusterv1alpha1.Cluster{}, &interpret.Interpreter{}
	if c.Source.URL != "" || c.sourceDir != "" {
		d, done, err := c.decideOnce(ctx, "")
		if err != nil {
			return nil, nil, err
		}
		defer done()
		registered, rules = d.Next.Members, d.Rules
	} else {
		for _, name := range c.kubeconfig().Contexts() {
			registered[name] = named(name)
		}
		for _, r := range lookup.Registrations().Clusters {
			registered[r.Name] = named(r.Name)
		}
	}
	for _, name := range only {
		if registered[name] == nil {
			return nil, nil, fmt.Errorf("--clusters %s: %w", name, noMember(slices.Sorted(maps.Keys(registered))))
		}
	}
	if len(registered) == 0 {
		return nil, nil, errors.New("there are no members; push Cluster manifests to the source, or give --kubeconfig")
	}
	found, unasked := map[string]*rest.Config{}, []string(nil)
	for name, cluster := range registered {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		config, _, err := lookup.Find(ctx, cluster)
		switch {
		case errors.Is(err, member.ErrNoCredentials) && decide.DeliveryOf(cluster) == decide.DeliveryPull && !slices.Contains(only, name):
			unasked = append(unasked, name)
			continue
		case err != nil:
			config = &rest.Config{Host: "https://" + name + ".invalid", Transport: failing{err}}
		}
		found[name] = config
	}
	if len(unasked) > 0 {
		slices.Sort(unasked)
		c.note("not asked, as agents serve them and there are no credentials here: %s", strings.Join(unasked, ", "))
	}
	if len(found) == 0 {
		return nil, nil, errors.New("no member can be asked from here; see \"godwit clusters\", and give credentials in a kubeconfig to ask them")
	}
	return found, rules, nil
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

// managementTime is how long a command waits for the management cluster.
const managementTime = 5 * time.Second

func (c *Config) kubeconfig() *member.Kubeconfig {
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

// view is how answers are printed.
type view struct {
	cmd    *cobra.Command
	query  inspect.Query
	rules  *interpret.Interpreter
	output string
	// all shows namespaces, several the kinds of objects.
	all, several, aggregate bool
}

// print prints what there is, then says who did not answer.
func (v *view) print(kinds [][]reply) error {
	var objects []any
	failed, unserved, missing, members := map[string]bool{}, []string{}, []string{}, 0
	found, printed := false, 0
	for _, replies := range kinds {
		var answers []inspect.Answer
		for _, r := range replies {
			served, there := len(r.answers) == 0, false
			members = len(r.answers)
			for _, a := range r.answers {
				if !errors.Is(a.Err, inspect.ErrNoKind) {
					served = true
					if a.Err != nil && !inspect.NotFound(a.Err) {
						if !failed[a.Member] {
							fmt.Fprintf(v.cmd.ErrOrStderr(), "godwit: %s: %v\n", a.Member, a.Err)
						}
						failed[a.Member] = true
					}
				}
				there = there || len(a.Items) > 0 || a.Table != nil && len(a.Table.Rows) > 0
			}
			switch {
			case !served:
				unserved = append(unserved, r.kind)
			case !there && r.name != "":
				missing = append(missing, fmt.Sprintf("%s %q", r.kind, r.name))
			}
			found = found || there
			answers = append(answers, r.answers...)
		}
		if v.query.Objects {
			objects = append(objects, v.objects(answers)...)
			continue
		}
		if lines := v.lines(answers); lines != nil {
			if printed++; printed > 1 {
				fmt.Fprintln(v.cmd.OutOrStdout())
			}
			if err := report.Table(v.cmd.OutOrStdout(), style(v.cmd, v.cmd.OutOrStdout()), lines); err != nil {
				return err
			}
		}
	}
	var err error
	if v.query.Objects {
		err = v.printObjects(objects)
	}
	switch {
	case err != nil:
		return err
	case len(failed) > 0:
		return &statusError{exitMembers, fmt.Sprintf("%d of %d members did not answer: %s", len(failed), members, strings.Join(slices.Sorted(maps.Keys(failed)), ", "))}
	case len(unserved) > 0:
		return fmt.Errorf("no member serves a resource type %q; policies and Clusters are in the source: see \"godwit plan -o wide\" and \"godwit clusters\"", slices.Compact(unserved)[0])
	case len(missing) > 0:
		return fmt.Errorf("%s is on no member", strings.Join(missing, ", "))
	case !found && v.all:
		fmt.Fprintln(v.cmd.ErrOrStderr(), "No resources found")
	case !found:
		fmt.Fprintf(v.cmd.ErrOrStderr(), "No resources found in %s namespace.\n", v.query.Namespace)
	}
	return nil
}

// everyMember stands in the CLUSTER column of a total; no member can have the name.
const everyMember = "<all>"

// entry is a row of a table.
type entry struct {
	inspect.Row
	member     string
	kind       api.ID
	namespaced bool
	health     workv1alpha2.ResourceHealth // with -o wide
}

// lines are the cells of a table of all members: the columns of the first that has rows, with CLUSTER
// after the name, as karmadactl puts it. Copies of one object stand together, a total behind them.
func (v *view) lines(answers []inspect.Answer) [][]string {
	var columns []string
	var entries []entry
	for _, a := range answers {
		if a.Table == nil || len(a.Table.Rows) == 0 {
			continue
		}
		if columns == nil {
			columns = inspect.Columns(a.Table, v.output == "wide")
		}
		for _, row := range inspect.Rows(a.Table, columns) {
			e := entry{row, a.Member, a.Kind, a.Namespaced, workv1alpha2.ResourceUnknown}
			if v.output == "wide" {
				if health, err := v.rules.Health(row.Object); err == nil {
					e.health = health
				}
			}
			entries = append(entries, e)
		}
	}
	if entries == nil {
		return nil
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Cells[0], b.Cells[0]), cmp.Compare(a.member, b.member))
	})
	heads := []string{strings.ToUpper(columns[0]), "CLUSTER"}
	for _, c := range columns[1:] {
		heads = append(heads, strings.ToUpper(c))
	}
	if v.all && entries[0].namespaced {
		heads = append([]string{"NAMESPACE"}, heads...)
	}
	if v.output == "wide" {
		heads = append(heads, "HEALTH")
	}
	lines := [][]string{heads}
	for len(entries) > 0 {
		n := 1
		for n < len(entries) && entries[n].Namespace == entries[0].Namespace && entries[n].Cells[0] == entries[0].Cells[0] {
			n++
		}
		same := entries[:n]
		entries = entries[n:]
		if !v.aggregate {
			for _, e := range same {
				lines = append(lines, v.line(e, string(e.health)))
			}
		}
		if v.aggregate || n > 1 && v.rules.Has(same[0].kind, interpret.AggregateStatus) {
			lines = append(lines, v.line(total(same), healthyOf(same)))
		}
	}
	return lines
}

func (v *view) line(e entry, health string) []string {
	name := e.Cells[0]
	if v.several {
		kind := strings.ToLower(e.kind.Kind)
		if e.kind.Group != "" {
			kind += "." + e.kind.Group
		}
		name = kind + "/" + name
	}
	cells := append([]string{name, e.member}, e.Cells[1:]...)
	if v.all && e.namespaced {
		cells = append([]string{e.Namespace}, cells...)
	}
	if v.output == "wide" {
		cells = append(cells, health)
	}
	return cells
}

// healthyOf is how many copies are healthy, of how many.
func healthyOf(entries []entry) string {
	n := 0
	for _, e := range entries {
		if e.health == workv1alpha2.ResourceHealthy {
			n++
		}
	}
	return fmt.Sprintf("%d/%d", n, len(entries))
}

// total is the row for all copies: counts, and shares such as 2/3, are added up; anything else stands if
// all say the same.
func total(entries []entry) entry {
	sum := entries[0]
	sum.member, sum.Cells = everyMember, slices.Clone(sum.Cells)
	for i := range sum.Cells[1:] {
		cells := make([]string, len(entries))
		for n, e := range entries {
			cells[n] = e.Cells[i+1]
		}
		sum.Cells[i+1] = added(cells)
	}
	return sum
}

func added(cells []string) string {
	sums, parts := []int64(nil), 0
	for _, cell := range cells {
		fields := strings.Split(cell, "/")
		if parts == 0 {
			parts, sums = len(fields), make([]int64, len(fields))
		}
		if parts != len(fields) || parts > 2 {
			sums = nil
			break
		}
		for i, f := range fields {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				sums = nil
				break
			}
			sums[i] += n
		}
		if sums == nil {
			break
		}
	}
	switch {
	case sums != nil:
		texts := make([]string, len(sums))
		for i, n := range sums {
			texts[i] = strconv.FormatInt(n, 10)
		}
		return strings.Join(texts, "/")
	case len(slices.Compact(slices.Clone(cells))) == 1:
		return cells[0]
	}
	return "-"
}

const (
	// annotationCluster tells in JSON and YAML which member an object is from.
	annotationCluster = "godwit.dev/cluster"
	// annotationHealth tells what its health is by the rules of its kind.
	annotationHealth = "godwit.dev/health"
)

// objects are the copies on all members, or what they come to together.
func (v *view) objects(answers []inspect.Answer) []any {
	var all []any
	type copies struct {
		first api.Object
		items []interpret.StatusItem
		names []string
	}
	together := map[api.ID]*copies{}
	for _, a := range answers {
		for _, o := range a.Items {
			if v.output == "name" {
				all = append(all, inspect.Annotated(o, annotationCluster, a.Member))
				continue
			}
			health, err := v.rules.Health(o)
			if err != nil {
				fmt.Fprintf(v.cmd.ErrOrStderr(), "godwit: %s: %s: %v\n", a.Member, api.IDOf(o), err)
			}
			if !v.aggregate {
				all = append(all, inspect.Annotated(inspect.Annotated(o, annotationCluster, a.Member), annotationHealth, string(health)))
				continue
			}
			id := api.IDOf(o)
			if together[id] == nil {
				together[id] = &copies{first: o}
			}
			c := together[id]
			status, err := v.rules.Status(o)
			if err != nil {
				fmt.Fprintf(v.cmd.ErrOrStderr(), "godwit: %s: %s: %v\n", a.Member, id, err)
			}
			c.items = append(c.items, interpret.StatusItem{Cluster: a.Member, Status: status, Applied: true, Health: health})
			c.names = append(c.names, a.Member)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(together), api.ID.Compare) {
		c := together[id]
		o, err := v.rules.AggregateStatus(interpret.Prune(c.first), c.items)
		if err != nil {
			fmt.Fprintf(v.cmd.ErrOrStderr(), "godwit: %s: %v\n", id, err)
			o = interpret.Prune(c.first)
		}
		all = append(all, inspect.Annotated(o, annotationCluster, strings.Join(c.names, ",")))
	}
	return all
}

func (v *view) printObjects(objects []any) error {
	out := v.cmd.OutOrStdout()
	if objects == nil {
		objects = []any{}
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}
	switch v.output {
	case "json":
		return writeJSON(out, list)
	case "yaml":
		return writeYAML(out, list)
	}
	for _, o := range objects {
		o := o.(api.Object)
		id := api.IDOf(o)
		fmt.Fprintf(out, "%s/%s (%s)\n", strings.ToLower(id.Kind), id.Name, inspect.Annotation(o, annotationCluster))
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
