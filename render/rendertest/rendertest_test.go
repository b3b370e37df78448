package rendertest

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestObjectsAreSettled(t *testing.T) {
	objects := Objects(t, "{apiVersion: v1, kind: Pod, metadata: {name: b}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: a}}")
	if len(objects) != 2 || objects[0].String() != "Pod default/a" || objects[1].String() != "Pod default/b" {
		t.Errorf("objects are %v", objects)
	}
	if pod := Decode[corev1.Pod](t, "{apiVersion: v1, kind: Pod, metadata: {name: a}}"); pod.Namespace != "default" {
		t.Errorf("the Pod is in %q", pod.Namespace)
	}
	if got, want := YAML(objects[0].Content), "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  namespace: default\n"; got != want {
		t.Errorf("YAML gives %q, want %q", got, want)
	}
}

func TestGoldenIsWrittenAndCompared(t *testing.T) {
	t.Chdir(t.TempDir())
	before := *update
	defer func() { *update = before }()
	*update = true
	Golden(t, "a/b.txt", "text\n")
	if got, err := os.ReadFile("testdata/a/b.txt"); err != nil || string(got) != "text\n" {
		t.Fatalf("the golden file has %q, %v", got, err)
	}
	*update = false
	Golden(t, "a/b.txt", "text\n")
	other := &recorder{TB: t}
	Golden(other, "a/b.txt", "other\n")
	if !other.failed {
		t.Error("another text passes")
	}
}

// recorder notes an error instead of failing.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }
