package main

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// A pod is kept NotReady (a Job's pod fails) while its annotation test/fail is "true", or while a
// value of the ConfigMap kube-system/test-fail is "*", "NAMESPACE/*" or "NAMESPACE/WORKLOAD".
// A Job's pod succeeds after the duration in its annotation test/run-for (default 0s).
const (
	failAnnotation   = "test/fail"
	runForAnnotation = "test/run-for"
	failConfigMap    = "test-fail"
)

// kubelet binds each pod to its one node and writes the status that the pod would have.
type kubelet struct {
	client kubernetes.Interface
	node   string
	pods   corelisters.PodLister
	knobs  corelisters.ConfigMapLister
	synced []cache.InformerSynced
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

// newKubelet registers the node. The informers must not have been started.
func newKubelet(ctx context.Context, client kubernetes.Interface, node string, pods coreinformers.PodInformer, knobs coreinformers.ConfigMapInformer) (*kubelet, error) {
	k := &kubelet{client: client, node: node, pods: pods.Lister(), knobs: knobs.Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, time.Second))}
	if err := k.watch(pods.Informer(), func(obj any) { k.queue.Add(cache.MetaObjectToName(obj.(*corev1.Pod))) }); err != nil {
		return nil, err
	}
	if err := k.watch(knobs.Informer(), func(obj any) {
		if obj.(*corev1.ConfigMap).Name == failConfigMap {
			all, _ := k.pods.List(labels.Everything())
			for _, pod := range all {
				k.queue.Add(cache.MetaObjectToName(pod))
			}
		}
	}); err != nil {
		return nil, err
	}
	size := corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi"), "pods": resource.MustParse("1000")}
	_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{corev1.LabelHostname: node}},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: size, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "FakeKubelet", LastTransitionTime: metav1.Now()}}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	return k, err
}

// watch calls changed for each object that comes, changes or goes.
func (k *kubelet) watch(informer cache.SharedIndexInformer, changed func(any)) error {
	reg, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) }, DeleteFunc: func(obj any) {
			if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = d.Obj
			}
			changed(obj)
		}})
	if err != nil {
		return err
	}
	k.synced = append(k.synced, reg.HasSynced)
	return nil
}

// run works until ctx ends.
func (k *kubelet) run(ctx context.Context, workers int) {
	if !cache.WaitForCacheSync(ctx.Done(), k.synced...) {
		return
	}
	for range workers {
		go func() {
			for {
				key, quit := k.queue.Get()
				if quit {
					return
				}
				if err := k.reconcile(ctx, key); err != nil && !apierrors.IsNotFound(err) {
					k.queue.AddRateLimited(key)
				} else {
					k.queue.Forget(key)
				}
				k.queue.Done(key)
			}
		}()
	}
	<-ctx.Done()
	k.queue.ShutDown()
}

// reconcile brings one pod a step further.
func (k *kubelet) reconcile(ctx context.Context, key cache.ObjectName) error {
	pod, err := k.pods.Pods(key.Namespace).Get(key.Name)
	if err != nil {
		return err
	}
	api := k.client.CoreV1().Pods(pod.Namespace)
	switch {
	case pod.DeletionTimestamp != nil:
		return api.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	case pod.Spec.NodeName == "":
		return api.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
			Target: corev1.ObjectReference{Kind: "Node", Name: k.node}}, metav1.CreateOptions{})
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return nil
	}
	want := pod.DeepCopy()
	if left := setStatus(want, k.fails(pod)); left > 0 {
		k.queue.AddAfter(key, left)
	}
	if equality.Semantic.DeepEqual(pod.Status, want.Status) {
		return nil
	}
	_, err = api.UpdateStatus(ctx, want, metav1.UpdateOptions{})
	return err
}

// fails tells whether the pod is to fail.
func (k *kubelet) fails(pod *corev1.Pod) bool {
	if pod.Annotations[failAnnotation] == "true" {
		return true
	}
	cm, err := k.knobs.ConfigMaps(metav1.NamespaceSystem).Get(failConfigMap)
	if err != nil {
		return false
	}
	for _, v := range cm.Data {
		ns, workload, _ := strings.Cut(v, "/")
		if v == "*" || ns == pod.Namespace && (workload == "*" || strings.HasPrefix(pod.Name, workload+"-")) {
			return true
		}
	}
	return false
}

// setStatus fills pod.Status; for a Job's pod that is still to run, it returns for how long.
func setStatus(pod *corev1.Pod, fail bool) (left time.Duration) {
	st, now := &pod.Status, metav1.Now().Rfc3339Copy()
	if st.StartTime == nil {
		st.StartTime, st.HostIP, st.PodIP = &now, "10.1.0.1", "10.1.0.2"
		st.PodIPs = []corev1.PodIP{{IP: st.PodIP}}
	}
	st.Phase = corev1.PodRunning
	reason, ready := "", !fail
	if fail {
		reason = "TestFail"
	}
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "Job" {
		runFor, _ := time.ParseDuration(pod.Annotations[runForAnnotation])
		if left = time.Until(st.StartTime.Add(runFor)); left <= 0 {
			st.Phase, ready = corev1.PodSucceeded, false
			if fail {
				st.Phase = corev1.PodFailed
			}
		}
	}
	setCondition(st, corev1.PodInitialized, true, "", now)
	setCondition(st, corev1.ContainersReady, ready, reason, now)
	setCondition(st, corev1.PodReady, ready, reason, now)
	started := st.Phase == corev1.PodRunning
	st.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *st.StartTime}}
		if !started {
			state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: *st.StartTime, FinishedAt: now}}
			if fail {
				state.Terminated.ExitCode = 1
			}
		}
		st.ContainerStatuses = append(st.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: ready, Started: &started, State: state})
	}
	return left
}

// setCondition keeps the time of a condition that did not change.
func setCondition(st *corev1.PodStatus, typ corev1.PodConditionType, ok bool, reason string, now metav1.Time) {
	status := corev1.ConditionFalse
	if ok {
		status = corev1.ConditionTrue
	}
	for i := range st.Conditions {
		if c := &st.Conditions[i]; c.Type == typ {
			if c.Status != status {
				*c = corev1.PodCondition{Type: typ, Status: status, Reason: reason, LastTransitionTime: now}
			}
			return
		}
	}
	st.Conditions = append(st.Conditions, corev1.PodCondition{Type: typ, Status: status, Reason: reason, LastTransitionTime: now})
}
