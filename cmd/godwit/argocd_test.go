package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/gitstate/record"
)

// What the manifests for Argo CD say of the repository, of the branch and of its folders is what godwit does. That the
// folders are those of a real state branch, and what is in them can be applied, is in the scripts hydrate_*.
func TestExamplesForArgoCDFitTheStateBranch(t *testing.T) {
	var set applicationSet
	var project struct {
		Metadata struct{ Name, Namespace string }
		Spec     struct{ SourceRepos []string }
	}
	var config struct {
		Source   struct{ URL, Branch string }
		State    struct{ Branch string }
		Delivery string
	}
	for name, into := range map[string]any{"applicationset.yaml": &set, "project.yaml": &project, "godwit.yaml": &config} {
		if err := example(name, into); err != nil {
			t.Fatal(err)
		}
	}
	git, spec := set.Spec.Generators[0].Git, set.Spec.Template.Spec
	for what, pair := range map[string][2]string{
		"repository of the folders":      {git.RepoURL, config.Source.URL},
		"repository of the applications": {spec.Source.RepoURL, config.Source.URL},
		"repository of the project":      {strings.Join(project.Spec.SourceRepos, " "), config.Source.URL},
		"branch of the folders":          {git.Revision, settings["state.branch"].(string)},
		"branch of the applications":     {spec.Source.TargetRevision, settings["state.branch"].(string)},
		"state branch of godwit":         {config.State.Branch, ""}, // the default
		"project":                        {spec.Project, project.Metadata.Name},
		"delivery":                       {config.Delivery, "hydrate"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %q, want %q", what, pair[0], pair[1])
		}
	}
	files := map[string]string{record.MetaPath: "", record.ClusterPath("kube05"): ""}
	for _, id := range []api.ID{{Version: "v1", Kind: "Namespace", Name: "shop"}, {Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web"}} {
		files[record.WorkPath("kube02", id)], files[record.RetiredPath("kube03", id)], files[record.WorkPath("kube04", id)] = "", "", ""
	}
	// kube04 says push.
	folders := set.folders(files)
	if got := strings.Join(folders, " "); got != "works/kube02" {
		t.Fatalf("folders %s", got)
	}
	if name, path := fill(spec.Destination.Name, folders[0]), fill(spec.Source.Path, folders[0]); name != "kube02" || path != "works/kube02" {
		t.Errorf("%s gets %s", name, path)
	}
	if !spec.Source.Directory.Recurse || !spec.SyncPolicy.Automated.Prune || !spec.SyncPolicy.Automated.SelfHeal {
		t.Errorf("works are below folders, and what leaves them is to go: %+v", spec)
	}
}

// With the role of the examples godwit can look and do nothing else.
func TestTheReaderCannotWrite(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(examplesArgoCD, "reader.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(text, &role); err != nil {
		t.Fatal(err)
	}
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			if verb != "get" && verb != "list" && verb != "watch" {
				t.Errorf("%v may %s", rule.Resources, verb)
			}
		}
		for _, resource := range rule.Resources {
			if resource == "secrets" || resource == "*" {
				t.Errorf("%s may be read, and nothing needs that", resource)
			}
		}
	}
}
