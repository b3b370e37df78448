package main

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/registry"
	"github.com/godwit-gitops/godwit/reconciler/serve"
	"github.com/godwit-gitops/godwit/render/kustomize"
)

const examplesInstall = "../../examples/install"

// overlays are the ways to install godwit, by the command that their pods run.
var overlays = map[string]string{"single": "run", "high-availability": "run", "argocd": "run", "webhooks": "run", "agent": "agent"}

// installed are the objects of an overlay; that of webhooks is one with the component for them.
func installed(t *testing.T, overlay string) []api.Object {
	t.Helper()
	files := fstest.MapFS{"overlays/webhooks/kustomization.yaml": {Data: []byte("resources: [../single]\ncomponents: [../../push-webhooks]\n")}}
	if err := fs.WalkDir(os.DirFS(examplesInstall), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(examplesInstall, path))
		files[path] = &fstest.MapFile{Data: text}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	all, _, err := kustomize.Build(files, "overlays/"+overlay)
	if err != nil {
		t.Fatalf("%s: %v", overlay, err)
	}
	return all
}

// only is the only object of its kind.
func only[T any](t *testing.T, all []api.Object, kind string) *T {
	t.Helper()
	var found []*T
	for _, o := range all {
		if o["kind"] == kind {
			typed := new(T)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, typed); err != nil {
				t.Fatal(err)
			}
			found = append(found, typed)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of kind %s", len(found), kind)
	}
	return found[0]
}

// parsed is the command that a line calls, with its flags read.
func parsed(t *testing.T, args []string) *cobra.Command {
	t.Helper()
	cmd, rest, err := newRoot(func() {}).Find(args)
	if err != nil || !cmd.Runnable() {
		t.Fatalf("%q is no command: %v", args, err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return cmd
}

// TestWhatIsInstalledIsWhatThisProgramKnows holds that each godwit.yaml is taken, that the pods' commands have these
// flags, and that the probes' paths are served.
func TestWhatIsInstalledIsWhatThisProgramKnows(t *testing.T) {
	fine := func() error { return nil }
	served := serve.Operations(fine, fine, http.NotFoundHandler())
	for overlay, command := range overlays {
		t.Run(overlay, func(t *testing.T) {
			all := installed(t, overlay)
			file := filepath.Join(t.TempDir(), "godwit.yaml")
			if err := os.WriteFile(file, []byte(only[corev1.ConfigMap](t, all, "ConfigMap").Data["godwit.yaml"]), 0o600); err != nil {
				t.Fatal(err)
			}
			container := only[appsv1.Deployment](t, all, "Deployment").Spec.Template.Spec.Containers[0]
			at := slices.Index(container.Args, "/etc/godwit/config/godwit.yaml")
			if at < 0 || !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/godwit/config" }) {
				t.Fatalf("the configuration is not where it is read from: %q", container.Args)
			}
			container.Args[at] = file
			cmd := parsed(t, container.Args)
			if cmd.Name() != command {
				t.Errorf("it runs %s", cmd.Name())
			}
			before, err := loadConfig(cmd)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range container.Env {
				t.Setenv(v.Name, v.Value)
			}
			c, err := loadConfig(cmd)
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{"dataDir": c.DataDir, "password": c.Source.Auth.PasswordFile}
			if command == "agent" {
				files = map[string]string{"dataDir": c.DataDir, "password": c.State.Auth.PasswordFile}
			}
			if len(container.Env) > 0 {
				if w := c.Server.Webhooks; before.Server.Webhooks == w || w.Address == "" {
					t.Errorf("the variables %v set %+v", container.Env, w)
				}
				files["id"], files["secret"] = c.Server.Webhooks.IDFile, c.Server.Webhooks.GitHubSecretFile
			}
			for what, path := range files {
				if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return path == m.MountPath || filepath.Dir(path) == m.MountPath }) {
					t.Errorf("%s: %s is in no volume", what, path)
				}
			}
			for _, p := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
				answer := httptest.NewRecorder()
				served.ServeHTTP(answer, httptest.NewRequest("GET", p.HTTPGet.Path, nil))
				if answer.Code != http.StatusOK {
					t.Errorf("a probe of %s gets %d", p.HTTPGet.Path, answer.Code)
				}
			}
		})
	}
}

// TestAnAgentMayDoWhatJoinGives holds that the ClusterRole of the manifests is the one that join makes for its kinds.
func TestAnAgentMayDoWhatJoinGives(t *testing.T) {
	role := only[rbacv1.ClusterRole](t, installed(t, "agent"), "ClusterRole")
	e := registry.Enrolment{Namespace: "godwit-system", Account: "godwit-agent", Capacity: true}
	for _, r := range role.Rules {
		if !slices.Contains(r.Verbs, "create") {
			continue
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				e.Grants = append(e.Grants, schema.GroupResource{Group: group, Resource: resource})
			}
		}
	}
	if len(e.Grants) == 0 {
		t.Fatal("nothing may be written")
	}
	for _, o := range e.Objects() {
		if o.GetKind() != "ClusterRole" {
			continue
		}
		text, err := json.Marshal(o.Object["rules"])
		if err != nil {
			t.Fatal(err)
		}
		var want []rbacv1.PolicyRule
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, role.Rules); diff != "" {
			t.Errorf("- join, + manifests\n%s", diff)
		}
	}
}

// TestCommandsOfTheReadmeAreThere reads the commands that the README of the manifests tells people to run.
func TestCommandsOfTheReadmeAreThere(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(examplesInstall, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range regexp.MustCompile("(?m)(?:^|-- /)godwit ([a-z][^`#\n|]+)").FindAllStringSubmatch(string(readme), -1) {
		if !strings.Contains(m[1], " -") {
			continue // a sentence
		}
		parsed(t, strings.Fields(m[1]))
		found++
	}
	if found < 2 {
		t.Errorf("%d commands found", found)
	}
}
