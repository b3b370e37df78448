package member

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
)

// Lookup finds the credentials of a member.
type Lookup interface {
	// Find gives the way to a member and a version that changes when the credentials do. It is asked
	// before every probe, by many members at once. The error is [ErrNoCredentials] if it is
	// certain that there are none; after any other error what was found last stays in use. With
	// [ErrNotYet] a member that was never looked at is left alone.
	Find(ctx context.Context, c *clusterv1alpha1.Cluster) (config *rest.Config, version string, err error)
}

// ErrNoCredentials: there are no credentials for the member.
var ErrNoCredentials = errors.New("no credentials")

// ErrNotYet: it cannot be told yet what the credentials are, which says nothing about the member.
var ErrNotYet = errors.New("the credentials are not known yet")

// AnnotationContext on a Cluster names the kubeconfig context, if it is not the member's name.
const AnnotationContext = "godwit.dev/kubeconfig-context"

// Kubeconfig looks credentials up in kubeconfig files, which are merged as KUBECONFIG says: the first
// file that has a context, cluster or user wins. Files are read at every look-up, and parsed again
// when their content changed.
type Kubeconfig struct {
	files []string

	mu      sync.Mutex
	content [sha256.Size]byte
	config  *clientcmdapi.Config
}

// NewKubeconfig takes files, and lists of files as in KUBECONFIG.
func NewKubeconfig(lists ...string) *Kubeconfig {
	k := &Kubeconfig{}
	for _, list := range lists {
		k.files = append(k.files, slices.DeleteFunc(filepath.SplitList(list), func(f string) bool { return f == "" })...)
	}
	return k
}

// Find implements [Lookup].
func (k *Kubeconfig) Find(_ context.Context, c *clusterv1alpha1.Cluster) (*rest.Config, string, error) {
	name := c.Name
	if n := c.Annotations[AnnotationContext]; n != "" {
		name = n
	}
	merged, err := k.load()
	if err != nil {
		return nil, "", err
	}
	if merged.Contexts[name] == nil {
		return nil, "", fmt.Errorf("%w: no context %q in %s", ErrNoCredentials, name, k.names())
	}
	mine := *merged
	mine.CurrentContext = name
	if err := clientcmdapi.MinifyConfig(&mine); err != nil {
		return nil, "", fmt.Errorf("context %q in %s: %w", name, k.names(), err)
	}
	text, err := clientcmd.Write(mine)
	if err != nil {
		return nil, "", fmt.Errorf("context %q in %s: %w", name, k.names(), err)
	}
	config, err := clientcmd.NewDefaultClientConfig(mine, nil).ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("context %q in %s: %w", name, k.names(), err)
	}
	sum := sha256.Sum256(text)
	return config, hex.EncodeToString(sum[:]), nil
}

func (k *Kubeconfig) names() string {
	if len(k.files) == 0 {
		return "no kubeconfig file"
	}
	return strings.Join(k.files, ", ")
}

// load gives the merged files. The result is shared and not to be changed.
func (k *Kubeconfig) load() (*clientcmdapi.Config, error) {
	var all bytes.Buffer
	for _, file := range k.files {
		content, err := os.ReadFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("read kubeconfig: %w", err)
		}
		fmt.Fprintf(&all, "%d\n", len(content))
		all.Write(content)
	}
	sum := sha256.Sum256(all.Bytes())
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.config != nil && sum == k.content {
		return k.config, nil
	}
	config, err := (&clientcmd.ClientConfigLoadingRules{Precedence: k.files}).Load()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	k.config, k.content = config, sum
	return config, nil
}
