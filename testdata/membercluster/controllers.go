package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/statefulset"
)

// runControllers starts the controllers that bring workloads up and take things down. It returns once they run.
func runControllers(ctx context.Context, cfg *rest.Config, cluster string) error {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.UserAgent = -1, "kube-controller-manager" // the field manager of what they write
	metaCfg := metadata.ConfigFor(cfg)
	cfg.AcceptContentTypes, cfg.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	meta, err := metadata.NewForConfig(metaCfg)
	if err != nil {
		return err
	}
	typed := informers.NewSharedInformerFactory(client, 0)
	apps, core, batch := typed.Apps().V1(), typed.Core().V1(), typed.Batch().V1()

	dc, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), client)
	if err != nil {
		return err
	}
	rsc := replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), client, replicaset.BurstReplicas)
	ssc := statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(), apps.ControllerRevisions(), client)
	dsc, err := daemon.NewDaemonSetsController(ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), client,
		flowcontrol.NewBackOff(time.Second, time.Minute))
	if err != nil {
		return err
	}
	jc, err := job.NewController(ctx, client, core.Pods(), batch.Jobs(), nil, nil)
	if err != nil {
		return err
	}
	nsc := namespace.NewNamespaceController(ctx, client, meta, client.Discovery().ServerPreferredNamespacedResources,
		core.Namespaces(), time.Minute, corev1.FinalizerKubernetes)
	sac, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(), client,
		serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return err
	}
	crac := clusterroleaggregation.NewClusterRoleAggregation(typed.Rbac().V1().ClusterRoles(), client.RbacV1())
	knobs := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(metav1.NamespaceSystem))
	kubelet, err := newKubelet(ctx, client, cluster+"-node", core.Pods(), knobs.Core().V1().ConfigMaps())
	if err != nil {
		return err
	}

	started := make(chan struct{})
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	all := informerfactory.NewInformerFactory(typed, metadatainformer.NewSharedInformerFactory(meta, 0))
	gc, err := garbagecollector.NewGarbageCollector(ctx, client, meta, mapper, garbagecollector.DefaultIgnoredResources(), all, started)
	if err != nil {
		return err
	}
	go gc.Run(ctx, 4, 5*time.Second)
	go gc.Sync(ctx, client.Discovery(), 5*time.Second) // looks for new resources

	typed.Start(ctx.Done())
	knobs.Start(ctx.Done())
	close(started)
	for _, run := range []func(context.Context, int){dc.Run, rsc.Run, ssc.Run, dsc.Run, jc.Run, nsc.Run, sac.Run, crac.Run, kubelet.run} {
		go run(ctx, 4)
	}
	return nil
}
