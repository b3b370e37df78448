package member

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
)

// kubeconfig has one context, its cluster and its user under the same name.
func kubeconfig(name, host, token string) string {
	return strings.NewReplacer("NAME", name, "HOST", host, "TOKEN", token).Replace(`apiVersion: v1
kind: Config
contexts: [{name: NAME, context: {cluster: NAME, user: NAME}}]
clusters: [{name: NAME, cluster: {server: "https://HOST"}}]
users: [{name: NAME, user: {token: TOKEN}}]
`)
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func cluster(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a"), kubeconfig("kube02", "first", "t1"))
	b := write(t, filepath.Join(dir, "b"), kubeconfig("kube02", "second", "t2"))
	c := write(t, filepath.Join(dir, "c"), kubeconfig("admin@kube03", "third", "t3"))
	missing := filepath.Join(dir, "missing")
	k := NewKubeconfig(a+string(os.PathListSeparator)+b, "", missing, c)

	named := cluster("kube03")
	named.Annotations = map[string]string{AnnotationContext: "admin@kube03"}
	for _, tt := range []struct {
		cluster     *clusterv1alpha1.Cluster
		host, token string
		err         error
	}{
		{cluster("kube02"), "https://first", "t1", nil}, // the first file wins
		{named, "https://third", "t3", nil},
		{cluster("kube03"), "", "", ErrNoCredentials},
	} {
		config, version, err := k.Find(context.Background(), tt.cluster)
		if !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, want %v", tt.cluster.Name, err, tt.err)
			continue
		}
		if err != nil {
			if !strings.Contains(err.Error(), a) || !strings.Contains(err.Error(), `"kube03"`) {
				t.Errorf("the message does not say what was looked for and where: %v", err)
			}
			continue
		}
		if config.Host != tt.host || config.BearerToken != tt.token || version == "" {
			t.Errorf("%s: %s with %s, version %q; want %s with %s", tt.cluster.Name, config.Host, config.BearerToken, version, tt.host, tt.token)
		}
	}
}

func TestVersionChangesWithTheMembersOwnCredentialsOnly(t *testing.T) {
	dir := t.TempDir()
	mine, other := filepath.Join(dir, "mine"), filepath.Join(dir, "other")
	k := NewKubeconfig(mine, other)
	version := func() string {
		t.Helper()
		_, version, err := k.Find(context.Background(), cluster("kube02"))
		if err != nil {
			t.Fatal(err)
		}
		return version
	}
	write(t, mine, kubeconfig("kube02", "host", "t1"))
	write(t, other, kubeconfig("kube03", "host3", "t1"))
	first := version()
	if again := version(); again != first {
		t.Error("it changed and nothing had")
	}
	write(t, other, kubeconfig("kube03", "host3", "t2"))
	if again := version(); again != first {
		t.Error("it changed with the credentials of another")
	}
	write(t, mine, kubeconfig("kube02", "host", "t2"))
	if again := version(); again == first {
		t.Error("it did not change with the token")
	}
}

func TestUnreadableKubeconfigIsNotMissingCredentials(t *testing.T) {
	k := NewKubeconfig(write(t, filepath.Join(t.TempDir(), "k"), "apiVersion: v1\nkind: [broken"))
	if _, _, err := k.Find(context.Background(), cluster("kube02")); err == nil || errors.Is(err, ErrNoCredentials) {
		t.Errorf("got %v", err)
	}
}
