package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/grpclog"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// Off: what needs a scheduler, kubelet, cloud or token controller. Namespace
// lifecycle, quota, limits, webhooks and admission policies stay on.
const disabledPlugins = "ServiceAccount,TaintNodesByCondition,Priority,DefaultTolerationSeconds,DefaultStorageClass," +
	"StorageObjectInUseProtection,PersistentVolumeClaimResize,RuntimeClass,CertificateApproval,CertificateSigning," +
	"ClusterTrustBundleAttest,CertificateSubjectRestriction,DefaultIngressClass"

var (
	dataDir     = flag.String("data", "data", "directory of all state; run again on it to keep objects, port and token")
	names       = flag.String("names", "m1", "comma-separated cluster names, all served by this process")
	basePort    = flag.Int("port", 0, "port of the first cluster, the others follow; 0: free ports, kept in the data directory")
	controllers = flag.Bool("controllers", true, "run the workload controllers and the fake kubelet")
	openapi     = flag.Bool("openapi", false, "serve /openapi/v2 and v3 (+80 MB, +0.7 s CPU for each cluster)")
	stdin       = flag.Bool("stdin", false, "end when standard input ends: with the program that holds its other end")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *stdin {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // however it ends
			stop()
		}()
	}
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// run serves the clusters until ctx ends or one of them cannot go on.
func run(ctx context.Context) error {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, os.Stderr)) // the etcd clients' chatter
	wal.SegmentSizeBytes = 8 << 20                                              // preallocated; default 64 MB

	dir, err := filepath.Abs(*dataDir)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, name := range strings.Split(*names, ",") {
		port := 0
		if *basePort != 0 {
			port = *basePort + i
		}
		group.Go(func() error {
			if err := runCluster(ctx, name, filepath.Join(dir, name), port); err != nil {
				return fmt.Errorf("cluster %s: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// runCluster serves one cluster, whose state is all in dir. Port 0 stands for the one it had, or a free one.
func runCluster(ctx context.Context, name, dir string, port int) error {
	etcd, err := startEtcd(filepath.Join(dir, "etcd"))
	if err != nil {
		return err
	}
	defer etcd.Close()
	listener, err := listen(filepath.Join(dir, "port"), port)
	if err != nil {
		return err
	}
	defer listener.Close()
	token, err := keep(filepath.Join(dir, "token"), func() string { return rand.Text() })
	if err != nil {
		return err
	}
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return err
	}

	// The server makes apiserver.crt and apiserver.key itself, unless they exist.
	crt, key := filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key")
	completed, err := complete(ctx, listener, append([]string{
		"--etcd-servers=" + etcd.Config().ListenClientUrls[0].String(),
		"--advertise-address=127.0.0.1", // else it wants a default route
		"--cert-dir=" + dir,
		"--token-auth-file=" + tokens,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + key,
		"--service-account-signing-key-file=" + key,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC",
		"--endpoint-reconciler-type=none",
		"--enable-priority-and-fairness=false",
		"--profiling=false",
		"--disable-admission-plugins=" + disabledPlugins,
	}, flag.Args()...))
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(crt)
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	cfg, err := writeKubeconfig(kubeconfig, name, "https://"+listener.Addr().String(), token, ca)
	if err != nil {
		return err
	}

	served := make(chan error, 1)
	go func() { served <- serve(ctx, completed) }()
	if err := waitReady(ctx, cfg, served); err != nil {
		return err
	}
	fmt.Println("ready", name, kubeconfig)
	if *controllers {
		if err := runControllers(ctx, cfg, name); err != nil {
			return err
		}
	}
	return <-served
}

var completeMu sync.Mutex // all options share a registry of feature gates

// complete turns the arguments of kube-apiserver into its options. Its listener is ours, so that port 0 works.
func complete(ctx context.Context, listener net.Listener, args []string) (completed options.CompletedOptions, err error) {
	completeMu.Lock()
	defer completeMu.Unlock()
	opts := options.NewServerRunOptions()
	opts.SecureServing.Listener = listener
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	sets := opts.Flags()
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		return completed, err
	}
	if completed, err = opts.Complete(ctx); err != nil {
		return completed, err
	}
	return completed, errors.Join(completed.Validate()...)
}

// startEtcd returns when the etcd in dir can be used.
func startEtcd(dir string) (*embed.Etcd, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	// A socket's path may have 107 bytes.
	cfg.ListenClientUrls = []url.URL{{Scheme: "unix", Path: filepath.Join(dir, "c")}}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "unix", Path: filepath.Join(dir, "p")}}
	cfg.UnsafeNoFsync = true // survives the death of the process, not of the machine
	cfg.SnapshotCount = 1000
	cfg.TickMs, cfg.ElectionMs = 20, 200 // a lone member waits for an election too
	cfg.LogLevel = "panic"               // errors are returned; closing would log some
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case <-time.After(30 * time.Second):
		etcd.Close()
		return nil, fmt.Errorf("etcd in %s is not ready after 30s", dir)
	}
}

// serve is the Run of kube-apiserver, with the OpenAPI documents optional.
func serve(ctx context.Context, opts options.CompletedOptions) error {
	cfg, err := app.NewConfig(opts)
	if err != nil {
		return err
	}
	if !*openapi {
		kube, crd, agg := cfg.KubeAPIs.ControlPlane.Generic, cfg.ApiExtensions.GenericConfig, cfg.Aggregator.GenericConfig
		kube.SkipOpenAPIInstallation, crd.SkipOpenAPIInstallation = true, true
		kube.OpenAPIConfig, crd.OpenAPIConfig, agg.OpenAPIConfig = nil, nil, nil // v3's stays: server-side apply needs it
	}
	completed, err := cfg.Complete()
	if err != nil {
		return err
	}
	server, err := app.CreateServerChain(completed)
	if err != nil {
		return err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}

// waitReady returns when /readyz is ok, or with the error of a server that stopped.
func waitReady(ctx context.Context, cfg *rest.Config, served <-chan error) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	for {
		if client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil {
			return nil
		}
		select {
		case err := <-served:
			return fmt.Errorf("the API server stopped: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// listen listens on port; 0 stands for the port kept in file, or else for a free one.
func listen(file string, port int) (net.Listener, error) {
	if b, err := os.ReadFile(file); port == 0 && err == nil {
		if port, err = strconv.Atoi(string(b)); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		return nil, err
	}
	return l, os.WriteFile(file, []byte(strconv.Itoa(l.Addr().(*net.TCPAddr).Port)), 0o600)
}

// keep returns what file holds, or writes make's value to it first.
func keep(file string, make func() string) (string, error) {
	b, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		b = []byte(make())
		err = os.WriteFile(file, b, 0o600)
	}
	return string(b), err
}

// writeKubeconfig writes a kubeconfig with one context, called name, and returns what it says.
func writeKubeconfig(file, name, server, token string, ca []byte) (*rest.Config, error) {
	kc := clientcmdapi.NewConfig()
	kc.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	kc.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	kc.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kc.CurrentContext = name
	if err := clientcmd.WriteToFile(*kc, file+".tmp"); err != nil {
		return nil, err
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		return nil, err
	}
	return clientcmd.NewDefaultClientConfig(*kc, nil).ClientConfig()
}
