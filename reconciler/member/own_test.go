package member

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
)

func TestOwnIsTheContextOfTheMemberElseTheCurrentOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	text := `
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: a, cluster: {server: "https://a"}}, {name: b, cluster: {server: "https://b"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: here, context: {cluster: a, user: u}}, {name: kube03, context: {cluster: b, user: u}}]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"kube03": "https://b", "kube04": "https://a"} {
		c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{AnnotationContext: "elsewhere"}}}
		config, version, err := Own{NewKubeconfig(file)}.Find(t.Context(), c)
		if err != nil || config.Host != want || version == "" {
			t.Errorf("Find(%s) = %v, %q, %v; want %s", name, config, version, err, want)
		}
	}
}

func TestOwnWithoutAKubeconfigIsThePods(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, _, err := (Own{}).Find(t.Context(), &clusterv1alpha1.Cluster{}); !errors.Is(err, ErrNoCredentials) {
		t.Errorf("Find() in no pod: %v, want ErrNoCredentials", err)
	}
}
