package registry

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/godwit-gitops/godwit/reconciler/credential"
)

// restConfig is the way as client-go goes it.
func restConfig(a *credential.Access) (*rest.Config, error) {
	c := &rest.Config{
		Host: a.Server, BearerToken: a.Token, Username: a.Username, Password: a.Password, DisableCompression: a.DisableCompression,
		TLSClientConfig: rest.TLSClientConfig{Insecure: a.Insecure, ServerName: a.ServerName, CAData: a.CA, CertData: a.Cert, KeyData: a.Key},
		Dial:            dialer.DialContext,
		// Set in any case: client-go keeps transports without it for ever, and each rotation makes another one.
		Proxy: http.ProxyFromEnvironment,
	}
	if a.ProxyURL != "" {
		proxy, err := url.Parse(a.ProxyURL)
		if err != nil {
			return nil, errors.New("the URL of the proxy cannot be read") // it may have a password
		}
		c.Proxy = http.ProxyURL(proxy)
	}
	if len(a.ProxyHeader) > 0 {
		header := http.Header{}
		for name, value := range a.ProxyHeader {
			header.Set(name, value)
		}
		c.Wrap(func(next http.RoundTripper) http.RoundTripper {
			if t, ok := next.(*http.Transport); ok {
				t.ProxyConnectHeader = header
			}
			return next
		})
	}
	if x := a.Exec; x != nil {
		c.ExecProvider = &clientcmdapi.ExecConfig{
			Command: x.Command, Args: x.Args, APIVersion: x.APIVersion, InstallHint: x.InstallHint,
			ProvideClusterInfo: x.ProvideClusterInfo, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}
		for _, v := range x.Env {
			c.ExecProvider.Env = append(c.ExecProvider.Env, clientcmdapi.ExecEnvVar{Name: v.Name, Value: v.Value})
		}
		if len(x.Config) > 0 {
			c.ExecProvider.Config = &runtime.Unknown{Raw: x.Config, ContentType: runtime.ContentTypeJSON}
		}
	}
	return c, nil
}

// dialer connects to no link-local address, whatever name it was found by.
var dialer = &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err == nil && credential.OutOfBounds(host) {
		err = fmt.Errorf("%s is a link-local address, or another one to which no credentials are sent", host)
	}
	return err
}}

// namespaceFile has the namespace of the pod that we are.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Management finds the management cluster, and our own namespace there: a context of a kubeconfig file, or, with neither
// named, the cluster that this process runs in. Config is nil if it runs in none.
func Management(kubeconfig, context string) (config *rest.Config, namespace string, err error) {
	if kubeconfig == "" && context == "" {
		config, err = rest.InClusterConfig()
		switch {
		case errors.Is(err, rest.ErrNotInCluster):
			return nil, "", nil
		case err != nil:
			return nil, "", fmt.Errorf("management cluster: %w", err)
		}
		text, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, "", fmt.Errorf("management cluster: find out the own namespace: %w", err)
		}
		return config, strings.TrimSpace(string(text)), nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	client := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
	if config, err = client.ClientConfig(); err != nil {
		return nil, "", fmt.Errorf("management cluster: %w", err)
	}
	if namespace, _, err = client.Namespace(); err != nil || namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return config, namespace, nil
}
