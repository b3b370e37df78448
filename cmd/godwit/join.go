package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/registry"
	"github.com/godwit-gitops/godwit/reconciler/report"
	"github.com/godwit-gitops/godwit/render/policy"
)

// enrolment are the flags that join and unjoin share.
type enrolment struct {
	admin, adminContext string
	namespace           string // in the member
	secretNamespace     string
	secretRef, dryRun   bool
}

func (e *enrolment) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&e.admin, "cluster-kubeconfig", "", "kubeconfig file that reaches the cluster as an administrator")
	f.StringVar(&e.adminContext, "cluster-context", "", "its context (default: the current one)")
	f.StringVar(&e.namespace, "cluster-namespace", "godwit-system", "namespace of the service account in the cluster")
	f.StringVar(&e.secretNamespace, "secret-namespace", "", "namespace of the Secret in the management cluster (default: argocd with clusters.argocd, else the first that is read)")
	f.BoolVar(&e.secretRef, "secret-ref", false, "keep the credentials as Karmada does, in a Secret that spec.secretRef names, and not as Argo CD does")
	f.BoolVar(&e.dryRun, "dry-run", false, "print what would be written, and write nothing")
}

// cluster is the way to the cluster for its administrator.
func (e *enrolment) cluster() (*rest.Config, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: e.admin}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: e.adminContext}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--cluster-kubeconfig: %w", err)
	}
	return config, nil
}

// home is the management cluster, and the record that is kept there of a member.
func (e *enrolment) home(c *Config, name string) (*rest.Config, registry.Record, error) {
	config, namespaces, err := c.management()
	switch {
	case err != nil:
		return nil, registry.Record{}, err
	case config == nil:
		return nil, registry.Record{}, errors.New("there is no management cluster to keep the credentials in: set management.kubeconfig")
	}
	namespace := e.secretNamespace
	if namespace == "" {
		namespace = namespaces[0]
		if c.Clusters.ArgoCD && !e.secretRef && slices.Contains(namespaces, argoNamespace) {
			namespace = argoNamespace
		}
	}
	if !slices.Contains(namespaces, namespace) {
		return nil, registry.Record{}, fmt.Errorf("--secret-namespace %s: is not read, clusters.namespaces are %s", namespace, strings.Join(namespaces, ", "))
	}
	return config, registry.Record{Member: name, Namespace: namespace, SecretRef: e.secretRef}, nil
}

func newJoin() *cobra.Command {
	var e enrolment
	var kinds, labels []string
	var duration time.Duration
	var server, region, zone, provider string
	noCapacity := false
	cmd := &cobra.Command{
		Use:   "join NAME --cluster-kubeconfig FILE",
		Short: "Make a cluster a member",
		Long: `join makes a service account in a cluster, keeps its token in a Secret of the management cluster, and commits a
Cluster manifest to the source. The account may read what godwit looks at, and write the kinds that the source uses now or
--kinds names, in every namespace; it is no administrator. It may impersonate the service accounts that projects name.
When the source uses other kinds, or projects name other accounts later, run join again.

It may be run again at any time: what is there is brought up to date, and what somebody else made is left alone.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, output, err := configured(cmd)
			if err != nil {
				return err
			}
			name := args[0]
			if problem := policy.ClusterNameProblem(name); problem != "" {
				return errors.New(problem)
			}
			j := join{enrolment: e, Config: c, name: name, kinds: kinds, server: server, manifest: named(name)}
			j.enroll = registry.Enrolment{Namespace: e.namespace, Account: c.account(), Capacity: !noCapacity, Duration: duration, Impersonates: c.projects.ServiceAccounts()}
			m := j.manifest
			m.TypeMeta = metav1.TypeMeta{APIVersion: clusterv1alpha1.APIVersion, Kind: "Cluster"}
			m.Spec = clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Push, Region: region, Provider: provider}
			if zone != "" {
				m.Spec.Zones = []string{zone}
			}
			for _, l := range labels {
				key, value, ok := strings.Cut(l, "=")
				if !ok {
					return fmt.Errorf("--label %s: write KEY=VALUE", l)
				}
				if m.Labels == nil {
					m.Labels = map[string]string{}
				}
				m.Labels[key] = value
			}
			err = j.run(cmd.Context())
			return errors.Join(j.print(cmd, output), err)
		},
	}
	e.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&kinds, "kinds", nil, "kinds that may be written, like deployments.apps,services; * for all (default: those that the source uses)")
	f.StringSliceVar(&labels, "label", nil, "label of the cluster, KEY=VALUE")
	f.DurationVar(&duration, "token-duration", 0, "a token that ends after this time, and has to be renewed by join (default: one that lasts)")
	f.StringVar(&server, "server", "", "how the management cluster reaches the cluster (default: as the kubeconfig says)")
	f.StringVar(&region, "region", "", "region of the cluster")
	f.StringVar(&zone, "zone", "", "zone of the cluster")
	f.StringVar(&provider, "provider", "", "provider of the cluster")
	f.BoolVar(&noCapacity, "no-capacity", false, "the account may not read nodes and pods: nothing is known of what is free")
	_ = cmd.MarkFlagRequired("cluster-kubeconfig")
	return printing(cmd, "text", "json", "yaml")
}

// account is the name of our service account in members; each fleet has its own.
func (c *Config) account() string {
	if c.Fleet == "godwit" {
		return c.Fleet
	}
	return "godwit-" + c.Fleet
}

// join is one run of it, or of unjoin.
type join struct {
	enrolment
	*Config
	name     string
	kinds    []string
	server   string
	enroll   registry.Enrolment
	manifest *clusterv1alpha1.Cluster
	steps    []step
	texts    []string // of a dry run
	notes    []string
}

// step is what was done in one place.
type step struct {
	Where string `json:"where"`
	registry.Done
}

func (j *join) did(where string, done ...registry.Done) {
	for _, d := range done {
		j.steps = append(j.steps, step{where, d})
	}
}

func (j *join) run(ctx context.Context) error {
	config, err := j.cluster()
	if err != nil {
		return err
	}
	management, kept, err := j.home(j.Config, j.name)
	if err != nil {
		return err
	}
	uid, err := registry.Identity(ctx, config)
	if err != nil {
		return err
	}
	known, err := j.known(ctx, uid)
	if err != nil {
		return err
	}
	if j.enroll.Grants, err = j.grants(config, known); err != nil {
		return err
	}
	j.manifest.Spec.ID = uid
	kept.Labels = maps.Clone(j.manifest.Labels)
	if kept.Labels == nil {
		kept.Labels = map[string]string{}
	}
	spec := &j.manifest.Spec
	for label, value := range map[string]string{"region": spec.Region, "zone": strings.Join(spec.Zones, ""), "provider": spec.Provider} {
		if value != "" {
			kept.Labels["topology.kubernetes.io/"+label] = value
		}
	}
	spec.APIEndpoint = cmp.Or(strings.TrimRight(j.server, "/"), strings.TrimRight(config.Host, "/"))
	if j.secretRef {
		spec.SecretRef = &clusterv1alpha1.LocalSecretReference{Namespace: kept.Namespace, Name: kept.Name()}
	}
	if j.dryRun {
		return j.preview(kept)
	}
	issued, done, err := registry.Enroll(ctx, config, j.enroll)
	j.did(j.name, done...)
	if err != nil {
		return err
	}
	issued.Access.Server = spec.APIEndpoint
	if !issued.Expires.IsZero() {
		j.notes = append(j.notes, fmt.Sprintf("the token ends at %s; run join again before", issued.Expires.UTC().Format(time.RFC3339)))
	}
	d, err := registry.Keep(ctx, management, kept, issued)
	if err != nil {
		return err
	}
	j.did("management", d)
	return j.commit(ctx)
}

// known is what is decided of the source now. A member of that name that is another cluster is an error.
func (j *join) known(ctx context.Context, uid string) (uses, error) {
	d, done, err := j.decideOnce(ctx, "")
	if err != nil {
		return uses{}, err
	}
	defer done()
	if old := d.Next.Members[j.name]; old != nil && old.Spec.ID != "" && old.Spec.ID != uid {
		return uses{}, fmt.Errorf("member %s is another cluster: its UID is %s, that of this one is %s; choose another name, or set spec.id in its manifest first", j.name, old.Spec.ID, uid)
	}
	return j.uses(d)
}

// grants are the resources that the account may write.
func (j *join) grants(config *rest.Config, known uses) ([]schema.GroupResource, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	var grants []schema.GroupResource
	for _, kind := range j.kinds {
		gr := written(strings.ToLower(kind))
		if kind != "*" {
			found, err := mapper.ResourceFor(gr.WithVersion(""))
			if err != nil {
				return nil, fmt.Errorf("--kinds %s: %w", kind, err)
			}
			gr = found.GroupResource()
		}
		grants = append(grants, gr)
	}
	if len(j.kinds) > 0 {
		return grants, nil
	}
	for id := range known.kinds {
		if id.Group == "rbac.authorization.k8s.io" {
			j.notes = append(j.notes, fmt.Sprintf("the source has objects of kind %s: the cluster lets the account write only those that grant no more than it has itself", id.Kind))
		}
	}
	slices.Sort(j.notes)
	return known.grants(mapper), nil
}

// commit writes the manifest to the source, if there is none.
func (j *join) commit(ctx context.Context) error {
	text, err := j.yaml()
	if err != nil {
		return err
	}
	r, err := j.editCluster(ctx, j.name, taintEdit{verb: "join", edit: func(r *edited, fsys fs.FS) ([]byte, error) {
		r.File, r.Diff = "", ""
		_, _, err := r.find(fsys)
		switch {
		case err == nil:
			return nil, nil // a person's words about it stay
		case !errors.Is(err, errNoManifest):
			return nil, err
		}
		r.File = path.Join("clusters", j.name+".yaml")
		if _, err := fs.Lstat(fsys, r.File); err == nil {
			return nil, fmt.Errorf("%s is there, and has no Cluster %s; move it", r.File, j.name)
		}
		r.Diff = report.Diff(r.File, "", text)
		return []byte(text), nil
	}}, false)
	if err != nil {
		return err
	}
	what := "created"
	switch {
	case r.Diff == "":
		what = "left"
	case r.Commit != "":
		what = fmt.Sprintf("created in commit %.10s on %s", r.Commit, r.Branch)
	}
	j.did("source", registry.Done{Object: r.File, What: what})
	return nil
}

// yaml is the manifest as it is written.
func (j *join) yaml() (string, error) {
	m := map[string]any{"name": j.name}
	if len(j.manifest.Labels) > 0 {
		m["labels"] = j.manifest.Labels
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": j.manifest.APIVersion, "kind": j.manifest.Kind, "metadata": m, "spec": j.manifest.Spec})
	return string(text), err
}

// preview gives the texts of all that would be written. The token is not there yet.
func (j *join) preview(kept registry.Record) error {
	issued := registry.Issued{}
	issued.Access.Server, issued.Access.Token = j.manifest.Spec.APIEndpoint, "the token of the account"
	objects := j.enroll.Objects()
	secret, err := kept.Object(issued)
	if err != nil {
		return err
	}
	for i, o := range append(objects, secret) {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		where := "in " + j.name
		if i == len(objects) {
			where = "in the management cluster"
		}
		j.texts = append(j.texts, "# "+where+"\n"+string(text))
	}
	text, err := j.yaml()
	j.texts = append(j.texts, "# in the source, unless it is there: clusters/"+j.name+".yaml\n"+text)
	return err
}

func (j *join) print(cmd *cobra.Command, output string) error {
	w := cmd.OutOrStdout()
	for _, note := range j.notes {
		j.note("%s", note)
	}
	if len(j.texts) > 0 {
		_, err := w.Write([]byte(strings.Join(j.texts, "---\n")))
		return err
	}
	switch output {
	case "json":
		return writeJSON(w, map[string]any{"items": j.steps})
	case "yaml":
		return writeYAML(w, map[string]any{"items": j.steps})
	}
	var text bytes.Buffer
	for _, s := range j.steps {
		fmt.Fprintf(&text, "%s: %s %s\n", s.Where, report.Flat(s.Object), s.What)
	}
	_, err := w.Write(text.Bytes())
	return err
}

func newUnjoin() *cobra.Command {
	var e enrolment
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "unjoin NAME",
		Short: "Take a member out of the fleet",
		Long: `unjoin takes the Cluster manifest out of the source, so that the reconciler removes what the member has, and waits until the
record has nothing of it left, for --timeout. Only then it removes the Secret from the management cluster, and, with
--cluster-kubeconfig, the service account from the cluster. What join did not make is left alone, and said.

If something keeps the member, such as deletions that wait for "godwit approve", run it again afterwards.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, output, err := configured(cmd)
			if err != nil {
				return err
			}
			j := join{enrolment: e, Config: c, name: args[0]}
			j.enroll = registry.Enrolment{Namespace: e.namespace, Account: c.account(), Impersonates: c.projects.ServiceAccounts()}
			err = j.leave(cmd.Context(), timeout)
			return errors.Join(j.print(cmd, output), err)
		},
	}
	e.flags(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "how long to wait until the member has nothing of ours left")
	return printing(cmd, "text", "json", "yaml")
}

func (j *join) leave(ctx context.Context, timeout time.Duration) error {
	management, kept, err := j.home(j.Config, j.name)
	if err != nil {
		return err
	}
	var config *rest.Config
	if j.admin != "" {
		if config, err = j.cluster(); err != nil {
			return err
		}
	}
	if err := j.withdraw(ctx); err != nil {
		return err
	}
	if j.dryRun {
		j.steps = append(j.steps, step{"management", registry.Done{Object: "Secret " + kept.Namespace + "/" + kept.Name(), What: "would be deleted once the member has nothing left"}})
		if config != nil {
			j.steps = append(j.steps, step{j.name, registry.Done{Object: "ServiceAccount " + j.enroll.Namespace + "/" + j.enroll.Account, What: "would be deleted with its role"}})
		}
		return nil
	}
	if !kept.SecretRef {
		d, err := registry.Release(ctx, management, kept)
		if err != nil {
			return err
		}
		j.did("management", d)
		if d.What == "left" {
			return fmt.Errorf("%s was not made by join: annotate it with godwit.dev/member=false, or remove it", d.Object)
		}
	}
	if err := j.awaitGone(ctx, timeout); err != nil {
		return err
	}
	d, err := registry.Drop(ctx, management, kept)
	if err != nil {
		return err
	}
	j.did("management", d)
	if config == nil {
		j.notes = append(j.notes, fmt.Sprintf("the service account %s/%s is still in the cluster; give --cluster-kubeconfig to remove it", j.enroll.Namespace, j.enroll.Account))
		return nil
	}
	done, err := registry.Expel(ctx, config, j.enroll)
	j.did(j.name, done...)
	return err
}

// withdraw takes the manifest out of the source.
func (j *join) withdraw(ctx context.Context) error {
	r, err := j.editCluster(ctx, j.name, taintEdit{verb: "unjoin", edit: func(r *edited, fsys fs.FS) ([]byte, error) {
		r.File, r.Diff = "", ""
		before, at, err := r.find(fsys)
		switch {
		case errors.Is(err, errNoManifest):
			return nil, nil
		case err != nil:
			return nil, err
		case at.others > 0:
			return nil, fmt.Errorf("%s has other objects besides; take Cluster %s out of it and push, then run unjoin again", at.Origin, j.name)
		}
		r.Diff = report.Diff(r.File, string(before), "")
		return nil, nil
	}}, j.dryRun)
	if err != nil {
		return err
	}
	what := "deleted"
	switch {
	case r.Diff == "":
		return nil // there is none
	case j.dryRun:
		what = "would be deleted"
	case r.Commit != "":
		what = fmt.Sprintf("deleted in commit %.10s on %s", r.Commit, r.Branch)
	}
	j.did("source", registry.Done{Object: r.File, What: what})
	return nil
}

// lookAgain is how often the record is read while a member leaves.
const lookAgain = time.Second

// awaitGone waits until the record does not have the member.
func (j *join) awaitGone(ctx context.Context, timeout time.Duration) error {
	over := time.NewTimer(timeout)
	defer over.Stop()
	for {
		state, done, err := j.readState(ctx, "")
		if err != nil {
			return err
		}
		done()
		if state.Members[j.name] == nil {
			return nil
		}
		again := time.NewTimer(lookAgain)
		select {
		case <-again.C:
		case <-over.C:
			again.Stop()
			retired := 0
			for _, r := range state.Retired {
				if r.Cluster == j.name {
					retired++
				}
			}
			return fmt.Errorf("member %s is still there after %s: %d works, and %d objects that are being removed; its credentials stay. See \"godwit approve\", whether a reconciler runs, and run unjoin again", j.name, timeout, len(worksOf(state, j.name)), retired)
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		}
	}
}
