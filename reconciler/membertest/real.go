package membertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	startTimeout = 2 * time.Minute  // a busy machine has taken 20 seconds
	stopTimeout  = 15 * time.Second // from SIGTERM to SIGKILL
	maxSocket    = 107              // bytes of the path of a unix socket
)

// Real is a member that is a real API server, in a process of its own.
// Its methods may be called from many goroutines.
type Real struct {
	name, binary, dir string
	temporary         bool // dir is ours to remove

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd is gone
	stdin  io.Closer     // the process ends with it
	log    *tail
}

// StartReal starts the program built from testdata/membercluster, and returns when it serves. ctx bounds the start
// only. The member's state is kept under dataDir, and found there again; if that is empty, a temporary directory is
// used and [Real.Stop] removes it. The path of dataDir must be short: etcd listens on a unix socket below it.
// The process ends with this one, however this one ends, unless it is paused then.
func StartReal(ctx context.Context, binary, dataDir, name string) (*Real, error) {
	r := &Real{name: name, binary: binary, dir: dataDir}
	if dataDir == "" {
		dir, err := os.MkdirTemp("", "mc")
		if err != nil {
			return nil, err
		}
		r.dir, r.temporary = dir, true
	}
	dir, err := filepath.Abs(r.dir)
	if err != nil {
		return nil, err
	}
	r.dir = dir
	if socket := filepath.Join(dir, name, "etcd", "c"); len(socket) > maxSocket {
		return nil, fmt.Errorf("start member %s: the path %s is longer than the %d bytes a unix socket's may have: choose a shorter directory", name, socket, maxSocket)
	}
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

func (r *Real) start(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil {
		select {
		case <-r.exited: // by itself
			r.end(syscall.SIGKILL)
		default:
			return fmt.Errorf("start member %s: it runs", r.name)
		}
	}
	log := new(tail)
	cmd := exec.Command(r.binary, "-data", r.dir, "-names", r.name, "-stdin")
	cmd.Stderr = log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start member %s: %w", r.name, err)
	}
	ready, exited := make(chan struct{}), make(chan struct{})
	r.cmd, r.stdin, r.log, r.exited = cmd, stdin, log, exited
	go func() {
		defer close(exited)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "ready "+r.name+" ") {
				close(ready)
				break
			}
		}
		_, _ = io.Copy(io.Discard, stdout) // until it exits
		_ = cmd.Wait()                     // why it exited is in the log
	}()
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-ready:
		return nil
	case <-exited:
		err = errors.New("it exited")
	case <-timeout.C:
		err = fmt.Errorf("it is not ready after %s", startTimeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	r.end(syscall.SIGKILL)
	return fmt.Errorf("start member %s: %w: %s", r.name, err, log)
}

// end sends a signal and waits until the process is gone. The caller holds r.mu.
func (r *Real) end(sig os.Signal) {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Signal(sig) // an error is that of a process that is gone
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-r.exited:
	case <-timeout.C:
		_ = r.cmd.Process.Kill()
		<-r.exited
	}
	_ = r.stdin.Close()
	r.cmd = nil
}

// Name returns the member's name.
func (r *Real) Name() string { return r.name }

// Kubeconfig returns the path of a kubeconfig, with one context, named as the member.
func (r *Real) Kubeconfig() string { return filepath.Join(r.dir, r.name, "kubeconfig") }

// RestConfig returns how to reach the member, without a limit on the rate of requests.
func (r *Real) RestConfig() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig())
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	return cfg, nil
}

// Stop ends the member in good order, also one that is paused. A temporary directory goes with it.
func (r *Real) Stop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil {
		_ = resume(r.cmd.Process)
	}
	r.end(syscall.SIGTERM)
	if r.temporary {
		return os.RemoveAll(r.dir)
	}
	return nil
}

// Pause stops the process as SIGSTOP does: connections are accepted by the kernel, and nothing answers.
func (r *Real) Pause() error { return r.signal("pause", pause) }

// Resume ends Pause.
func (r *Real) Resume() error { return r.signal("resume", resume) }

func (r *Real) signal(what string, send func(*os.Process) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return fmt.Errorf("%s member %s: it does not run", what, r.name)
	}
	if err := send(r.cmd.Process); err != nil {
		return fmt.Errorf("%s member %s: %w", what, r.name, err)
	}
	return nil
}

// Kill ends the process at once, as SIGKILL does. Its data stays: see [Real.Restart].
func (r *Real) Kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(syscall.SIGKILL)
}

// Restart starts a member that was killed, with its objects, port and token. ctx bounds the start.
func (r *Real) Restart(ctx context.Context) error { return r.start(ctx) }

// Writes returns [CountWrites] of the member.
func (r *Real) Writes(ctx context.Context) (int64, error) {
	cfg, err := r.RestConfig()
	if err != nil {
		return 0, err
	}
	return CountWrites(ctx, cfg)
}

// Fail makes the pods of a workload fail until Heal; the name * stands for all of a namespace.
func (r *Real) Fail(ctx context.Context, namespace, name string) error {
	return r.setFailure(ctx, namespace, name, true)
}

// Heal ends Fail for the same arguments.
func (r *Real) Heal(ctx context.Context, namespace, name string) error {
	return r.setFailure(ctx, namespace, name, false)
}

func (r *Real) setFailure(ctx context.Context, namespace, name string, fails bool) error {
	cfg, err := r.RestConfig()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	api := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(metav1.NamespaceSystem)
	var value any // nil takes the key away
	if fails {
		value = namespace + "/" + name
	}
	data := map[string]any{"data": map[string]any{failureKey(namespace, name): value}}
	patch, err := json.Marshal(data)
	if err != nil {
		return err
	}
	_, err = api.Patch(ctx, failConfigMap, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) && fails {
		cm := &unstructured.Unstructured{Object: data}
		cm.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
		cm.SetName(failConfigMap)
		_, err = api.Create(ctx, cm, metav1.CreateOptions{})
	}
	return err
}

// CountWrites returns how many requests have tried to change objects at an API server, simulated or real, since it
// started: by the metric apiserver_request_total, without dry runs. The controllers of a real server
// write too, until all is as it should be; leases, which are renewed for ever, are left out.
func CountWrites(ctx context.Context, cfg *rest.Config) (int64, error) {
	fail := func(err error) (int64, error) { return 0, fmt.Errorf("read the metrics of %s: %w", cfg.Host, err) }
	cfg = rest.CopyConfig(cfg)
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	cfg.GroupVersion = &schema.GroupVersion{}
	client, err := rest.RESTClientFor(cfg)
	if err != nil {
		return fail(err)
	}
	b, err := client.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return fail(err)
	}
	var sum float64
	for line := range bytes.Lines(b) {
		labels, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "apiserver_request_total{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(labels, "} ")
		if !strings.Contains(labels, `dry_run=""`) || strings.Contains(labels, `resource="leases"`) {
			continue
		}
		for _, verb := range metricVerbs {
			if strings.Contains(labels, `verb="`+verb+`"`) {
				n, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return fail(err)
				}
				sum += n
			}
		}
	}
	return int64(sum), nil
}

// tail keeps the last of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	t.buf = t.buf[max(0, len(t.buf)-4096):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}
