package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/godwit-gitops/godwit/examples"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/remote"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/inspect"
	"github.com/godwit-gitops/godwit/reconciler/member"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
	"github.com/godwit-gitops/godwit/reconciler/report"
	"github.com/godwit-gitops/godwit/render/interpret"
)

// demoMembers are the members' names in the example.
var demoMembers = []string{"kube02", "kube03"}

// demoStep is one push.
type demoStep struct {
	subject string
	shows   string
	// files are taken from the example: in the repository -> in the example; empty removes.
	files map[string]string
}

var demoSteps = []demoStep{
	{"two members and an application", "no policy selects the application, so it runs nowhere", map[string]string{
		"clusters/kube02.yaml": "clusters/kube02.yaml", "clusters/kube03.yaml": "clusters/kube03.yaml", "apps/demoapp.yaml": "apps/demoapp.yaml",
	}},
	{"a policy: the whole application in two regions", "4 replicas on each member", map[string]string{
		"policies/demoapp.yaml": "variants/demoapp-duplicated.yaml",
	}},
	{"an override: kube03 gets image tag v1.1", "kube02 stays at v1.0", map[string]string{
		"policies/demoapp-image.yaml": "policies/demoapp-image.yaml",
	}},
	{"the policy divides the replicas 3:1", "3 replicas on kube02, 1 on kube03", map[string]string{
		"policies/demoapp.yaml": "policies/demoapp.yaml",
	}},
	{"a kustomize overlay, and a custom resource with its definition", "both reach the members, with the namespace they need", map[string]string{
		"web/base/kustomization.yaml": "web/base/kustomization.yaml", "web/base/web.yaml": "web/base/web.yaml",
		"web/overlays/prod/kustomization.yaml": "web/overlays/prod/kustomization.yaml", "web/overlays/prod/policy.yaml": "web/overlays/prod/policy.yaml",
		"backup/crd.yaml": "backup/crd.yaml", "backup/backup.yaml": "backup/backup.yaml",
	}},
	{"the override goes", "kube03 is back at v1.0", map[string]string{
		"policies/demoapp-image.yaml": "",
	}},
}

func newDemo(stop func()) *cobra.Command {
	d := &demo{stop: stop}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "A complete fleet on this machine, pushed step by step",
		Long: `demo makes a source repository and two members, runs the reconciler on them, pushes the quickstart step
by step, and shows what changes on the members and on the state branch. It stays up until stopped.

Members are simulated inside the process by default: their API, validation and field ownership are
real, their pods are not. --members real runs a Kubernetes API server for each (see "make
membercluster"); --kubeconfig F --members a,b takes two clusters of your own.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd) },
	}
	cmd.Flags().StringVar(&d.members, "members", "simulated", "simulated, real, or two contexts of --kubeconfig")
	cmd.Flags().BoolVar(&d.once, "once", false, "end after the last step")
	cmd.Flags().StringVar(&d.dir, "dir", "", "where to keep everything (default: a new temporary folder, removed at the end)")
	cmd.Flags().DurationVar(&d.timeout, "timeout", time.Minute, "how long a step may take")
	return cmd
}

// demo is one demonstration.
type demo struct {
	members string
	once    bool
	dir     string
	timeout time.Duration
	stop    func()

	out        io.Writer
	style      report.Style
	names      []string
	kubeconfig string
	configs    map[string]*rest.Config
	source     *store.Store
	sourceDir  string
	head       gitstate.Revision
	shown      gitstate.Revision // of the state branch

	mu       sync.Mutex
	progress reconciler.Progress
	news     chan struct{}
}

func (d *demo) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	d.out, d.news = cmd.OutOrStdout(), make(chan struct{}, 1)
	d.style = style(cmd, d.out)
	if d.dir == "" {
		dir, err := os.MkdirTemp("", "godwit-demo-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		d.dir = dir
	} else if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	end, err := d.startMembers(cmd)
	if err != nil {
		return err
	}
	defer end()
	loop, err := d.startLoop(ctx, cmd)
	if err != nil {
		return err
	}
	defer loop.close()
	done := make(chan error, 1)
	running, cancel := context.WithCancel(ctx)
	go func() { done <- loop.Run(running) }()
	defer func() { cancel(); <-done }()

	for i, step := range demoSteps {
		if err := d.step(ctx, i+1, step); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("step %d, %s: %w", i+1, step.subject, err)
		}
	}
	d.finish()
	if d.once {
		return nil
	}
	<-ctx.Done()
	return nil
}

// startMembers starts or finds the two members and writes their kubeconfig.
func (d *demo) startMembers(cmd *cobra.Command) (end func(), err error) {
	d.kubeconfig = filepath.Join(d.dir, "kubeconfig")
	d.names = demoMembers
	var servers []*membertest.Server
	var reals []*membertest.Real
	end = func() {
		for _, s := range servers {
			s.Close()
		}
		for _, r := range reals {
			r.Stop()
		}
	}
	switch d.members {
	case "simulated":
		fmt.Fprintln(d.out, "Members are simulated inside this process: API, validation and field ownership are real, pods are not.")
		for _, name := range d.names {
			servers = append(servers, membertest.New(membertest.Options{Name: name}))
		}
		err = membertest.WriteKubeconfig(d.kubeconfig, servers...)
	case "real":
		binary, findErr := memberBinary()
		if findErr != nil {
			return nil, findErr
		}
		fmt.Fprintln(d.out, "Members are Kubernetes API servers, a process each; their nodes and pods are simulated.")
		var files []string
		for _, name := range d.names {
			r, startErr := membertest.StartReal(cmd.Context(), binary, filepath.Join(d.dir, "m"), name)
			if startErr != nil {
				end()
				return nil, startErr
			}
			reals = append(reals, r)
			files = append(files, r.Kubeconfig())
		}
		d.kubeconfig = strings.Join(files, string(os.PathListSeparator))
	default:
		d.names = strings.Split(d.members, ",")
		files, _ := cmd.Flags().GetStringSlice("kubeconfig")
		if len(d.names) != 2 || len(files) == 0 {
			return nil, errors.New("--members is simulated, real, or two context names with --kubeconfig")
		}
		d.kubeconfig = strings.Join(files, string(os.PathListSeparator))
	}
	if err == nil {
		d.configs, err = membersByName(cmd.Context(), d.kubeconfig, d.names)
	}
	if err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// memberBinary finds the program that runs a member.
func memberBinary() (string, error) {
	if b := os.Getenv("GODWIT_MEMBERCLUSTER"); b != "" {
		return b, nil
	}
	exe, err := os.Executable()
	if err == nil {
		if b := filepath.Join(filepath.Dir(exe), "membercluster"); isFile(b) {
			return b, nil
		}
	}
	return "", errors.New("the program membercluster is not beside godwit; run \"make membercluster\", or say where it is by GODWIT_MEMBERCLUSTER")
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// startLoop makes the repository and the reconciler.
func (d *demo) startLoop(ctx context.Context, cmd *cobra.Command) (*loop, error) {
	d.sourceDir = filepath.Join(d.dir, "fleet.git")
	if err := remote.Init(d.sourceDir); err != nil {
		return nil, err
	}
	r, err := remote.New(remote.Options{URL: d.sourceDir})
	if err != nil {
		return nil, err
	}
	if d.source, err = store.Open(ctx, store.Options{
		Remote: r, Branch: "main", Dir: filepath.Join(d.dir, "developer"), Author: store.Signature{Name: "Ada", Email: "ada@example.com"},
	}); err != nil {
		return nil, err
	}
	if _, err := d.source.Load(ctx); err != nil {
		return nil, err
	}
	// The reconciler needs something to read.
	if err := d.push(ctx, "an empty fleet", []store.Change{{Path: "README.md", Data: []byte("The fleet of the godwit demo.\n")}}); err != nil {
		return nil, err
	}
	c, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	c.sourceDir, c.Source.URL, c.Source.Branch, c.Source.Path, c.State.URL = "", d.sourceDir, "main", ".", ""
	c.Source.PollInterval, c.DataDir = time.Second, filepath.Join(d.dir, "data")
	c.Clusters.Kubeconfig = filepath.SplitList(d.kubeconfig)
	log := slog.New(slog.DiscardHandler)
	if n, _ := cmd.Flags().GetCount("verbose"); n > 0 {
		log = logger(cmd, c)
	}
	member.BridgeKlog(log)
	return c.loop(ctx, log, d.heard)
}

func (d *demo) heard(p reconciler.Progress) {
	d.mu.Lock()
	d.progress = p
	d.mu.Unlock()
	select {
	case d.news <- struct{}{}:
	default:
	}
}

func (d *demo) push(ctx context.Context, subject string, changes []store.Change) error {
	head, err := d.source.Commit(ctx, d.head, changes, store.Message{Subject: subject, When: time.Now()})
	if err != nil {
		return err
	}
	d.head = head
	return d.source.Push(ctx)
}

// step pushes files, waits until the members have what follows, and shows it.
func (d *demo) step(ctx context.Context, n int, step demoStep) error {
	var changes []store.Change
	for path, from := range step.files {
		change := store.Change{Path: d.renamed(path)}
		if from != "" {
			text, err := fs.ReadFile(examples.Quickstart, "quickstart/"+from)
			if err != nil {
				return err
			}
			change.Data = []byte(d.renamed(string(text)))
		}
		changes = append(changes, change)
	}
	fmt.Fprintf(d.out, "\n== %d. git push: %s\n   (%s)\n", n, step.subject, d.renamed(step.shows))
	if err := d.push(ctx, step.subject, changes); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	for !d.settled() {
		select {
		case <-wait.Done():
			return fmt.Errorf("not settled after %s: %s", d.timeout, d.missing())
		case <-d.news:
		}
	}
	return d.show(ctx)
}

func (d *demo) renamed(s string) string {
	return strings.NewReplacer(demoMembers[0], d.names[0], demoMembers[1], d.names[1]).Replace(s)
}

// settled: the newest push is decided, and members have it.
func (d *demo) settled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.progress
	return p.Decision != nil && p.Decision.Revision == d.head && len(p.Pending) == 0
}

func (d *demo) missing() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lines []string
	for _, f := range d.progress.Pending {
		lines = append(lines, f.Member+": "+f.Object+": "+f.Message)
	}
	if len(lines) == 0 {
		return "no decision about the newest push"
	}
	return strings.Join(lines, "; ")
}

// show prints the commits that came to the state branch, what is unbound, and the members.
func (d *demo) show(ctx context.Context) error {
	r, err := remote.New(remote.Options{URL: d.sourceDir})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(d.dir, "look-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	state, err := store.Open(ctx, store.Options{Remote: r, Branch: "godwit/state", Dir: dir})
	if err != nil {
		return err
	}
	defer state.Close()
	tree, err := state.Load(ctx)
	if err != nil {
		return err
	}
	var lines []string
	for commit, err := range state.Log(ctx, tree.Head) {
		if err != nil {
			return err
		}
		if commit.Revision == d.shown {
			break
		}
		lines = append(lines, fmt.Sprintf("   %.7s %s  [%s]", commit.Revision, commit.Subject, reasonOf(commit)))
	}
	d.shown = tree.Head
	if len(lines) > 0 {
		fmt.Fprintln(d.out, "-- new on the state branch")
		for i := len(lines) - 1; i >= 0; i-- {
			fmt.Fprintln(d.out, lines[i])
		}
	}
	d.mu.Lock()
	unbound := d.progress.Decision.Unbound
	d.mu.Unlock()
	for _, u := range unbound {
		fmt.Fprintf(d.out, "-- %s runs nowhere: %s\n", u.Template, u.Message)
	}
	fmt.Fprintln(d.out, "-- godwit get deployments -A -o wide")
	answers := inspect.Get(ctx, d.configs, inspect.Query{Kind: "deployments", Full: true})
	for _, a := range answers {
		if a.Err != nil {
			return fmt.Errorf("%s: %w", a.Member, a.Err)
		}
	}
	return report.Table(d.out, d.style, (&view{rules: &interpret.Interpreter{}, output: "wide", all: true}).lines(answers))
}

func reasonOf(c store.Commit) string {
	for _, t := range c.Trailers {
		if t.Key == "Godwit-Reason" {
			return t.Value
		}
	}
	return "-"
}

// finish says what there is to look at.
func (d *demo) finish() {
	if d.once {
		fmt.Fprintln(d.out, "\nDone.")
		return
	}
	git := "git"
	if _, err := exec.LookPath("git"); err != nil {
		git = "(git is not installed here) git"
	}
	fmt.Fprintf(d.out, `
Done. The fleet stays up until you press Ctrl-C. Try:
  %[1]s -C %[2]s log godwit/state
  %[1]s clone %[2]s my-fleet     # edit, push, and watch
  KUBECONFIG=%[6]s kubectl --context %[4]s scale deployment demoapp --replicas=9     # is put back
  %[5]s get deployments -A --kubeconfig %[3]s --source %[2]s
`, git, d.sourceDir, strings.ReplaceAll(d.kubeconfig, string(os.PathListSeparator), ","), d.names[0], os.Args[0], d.kubeconfig)
}

// membersByName finds the credentials of contexts.
func membersByName(ctx context.Context, kubeconfig string, names []string) (map[string]*rest.Config, error) {
	lookup := member.NewKubeconfig(kubeconfig)
	configs := map[string]*rest.Config{}
	for _, name := range names {
		config, _, err := lookup.Find(ctx, named(name))
		if err != nil {
			return nil, err
		}
		configs[name] = config
	}
	return configs, nil
}
