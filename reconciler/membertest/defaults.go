package membertest

import (
	"cmp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// setDefaults fills in what an API server fills in, for the kinds people deploy:
// a client that compares what it wrote with what it reads meets the same surprises.
func setDefaults(o runtime.Object) {
	switch o := o.(type) {
	case *appsv1.Deployment:
		s := &o.Spec
		or(&s.Replicas, 1)
		or(&s.RevisionHistoryLimit, 10)
		or(&s.ProgressDeadlineSeconds, 600)
		set(&s.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
		if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
			or(&s.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
			or(&s.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
			or(&s.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
		}
		podDefaults(&s.Template.Spec, corev1.RestartPolicyAlways)
	case *appsv1.ReplicaSet:
		or(&o.Spec.Replicas, 1)
		podDefaults(&o.Spec.Template.Spec, corev1.RestartPolicyAlways)
	case *appsv1.StatefulSet:
		s := &o.Spec
		or(&s.Replicas, 1)
		or(&s.RevisionHistoryLimit, 10)
		set(&s.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
		or(&s.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
		set(&s.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
		set(&s.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
		set(&s.UpdateStrategy.Type, appsv1.RollingUpdateStatefulSetStrategyType)
		if s.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
			or(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
			or(&s.UpdateStrategy.RollingUpdate.Partition, 0)
		}
		podDefaults(&s.Template.Spec, corev1.RestartPolicyAlways)
		for i := range s.VolumeClaimTemplates {
			setDefaults(&s.VolumeClaimTemplates[i])
		}
	case *appsv1.DaemonSet:
		s := &o.Spec
		or(&s.RevisionHistoryLimit, 10)
		set(&s.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
		if s.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
			or(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
			or(&s.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
			or(&s.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
		}
		podDefaults(&s.Template.Spec, corev1.RestartPolicyAlways)
	case *batchv1.Job:
		s := &o.Spec
		if s.Completions == nil && s.Parallelism == nil {
			or(&s.Completions, 1)
		}
		or(&s.Parallelism, 1)
		or(&s.BackoffLimit, 6)
		or(&s.CompletionMode, batchv1.NonIndexedCompletion)
		or(&s.Suspend, false)
		or(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
		or(&s.ManualSelector, false)
		podDefaults(&s.Template.Spec, "")
	case *batchv1.CronJob:
		s := &o.Spec
		set(&s.ConcurrencyPolicy, batchv1.AllowConcurrent)
		or(&s.Suspend, false)
		or(&s.SuccessfulJobsHistoryLimit, 3)
		or(&s.FailedJobsHistoryLimit, 1)
		podDefaults(&s.JobTemplate.Spec.Template.Spec, "")
	case *corev1.Pod:
		or(&o.Spec.EnableServiceLinks, true)
		podDefaults(&o.Spec, corev1.RestartPolicyAlways)
		set(&o.Status.Phase, corev1.PodPending)
	case *corev1.Service:
		serviceDefaults(&o.Spec)
	case *corev1.Secret:
		set(&o.Type, corev1.SecretTypeOpaque)
		for k, v := range o.StringData {
			if o.Data == nil {
				o.Data = make(map[string][]byte)
			}
			o.Data[k] = []byte(v)
		}
		o.StringData = nil
	case *corev1.PersistentVolumeClaim:
		or(&o.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
		set(&o.Status.Phase, corev1.ClaimPending)
	case *corev1.PersistentVolume:
		or(&o.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
		set(&o.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
		set(&o.Status.Phase, corev1.VolumePending)
	case *corev1.Namespace:
		if o.Labels == nil {
			o.Labels = make(map[string]string)
		}
		o.Labels[corev1.LabelMetadataName] = o.Name
		if o.DeletionTimestamp == nil && len(o.Spec.Finalizers) == 0 {
			o.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
		}
		set(&o.Status.Phase, corev1.NamespaceActive)
	case *autoscalingv2.HorizontalPodAutoscaler:
		or(&o.Spec.MinReplicas, 1)
		if len(o.Spec.Metrics) == 0 {
			percent := int32(80)
			o.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent}}}}
		}
	case *networkingv1.NetworkPolicy:
		if len(o.Spec.PolicyTypes) == 0 {
			o.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
			if len(o.Spec.Egress) > 0 {
				o.Spec.PolicyTypes = append(o.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
			}
		}
		for _, r := range o.Spec.Ingress {
			policyPorts(r.Ports)
		}
		for _, r := range o.Spec.Egress {
			policyPorts(r.Ports)
		}
	case *rbacv1.RoleBinding:
		bindingDefaults(&o.RoleRef, o.Subjects)
	case *rbacv1.ClusterRoleBinding:
		bindingDefaults(&o.RoleRef, o.Subjects)
	case *storagev1.StorageClass:
		or(&o.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		or(&o.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	case *apiextensionsv1.CustomResourceDefinition:
		set(&o.Spec.Names.Singular, strings.ToLower(o.Spec.Names.Kind))
		set(&o.Spec.Names.ListKind, o.Spec.Names.Kind+"List")
		or(&o.Spec.Conversion, apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter})
	}
}

// or sets *p to a pointer to v, unless it points to something.
func or[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// set sets *p to v, unless it has a value.
func set[T comparable](p *T, v T) { *p = cmp.Or(*p, v) }

func podDefaults(s *corev1.PodSpec, restart corev1.RestartPolicy) {
	set(&s.RestartPolicy, restart)
	set(&s.DNSPolicy, corev1.DNSClusterFirst)
	set(&s.SchedulerName, corev1.DefaultSchedulerName)
	or(&s.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	or(&s.SecurityContext, corev1.PodSecurityContext{})
	set(&s.ServiceAccountName, s.DeprecatedServiceAccount)
	s.DeprecatedServiceAccount = s.ServiceAccountName
	for _, containers := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range containers {
			containerDefaults(&containers[i])
		}
	}
	for i := range s.Volumes {
		volumeDefaults(&s.Volumes[i].VolumeSource)
	}
}

func containerDefaults(c *corev1.Container) {
	set(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	set(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	set(&c.ImagePullPolicy, pullPolicy(c.Image))
	for i := range c.Ports {
		set(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if f := c.Env[i].ValueFrom; f != nil && f.FieldRef != nil {
			set(&f.FieldRef.APIVersion, "v1")
		}
	}
	for name, limit := range c.Resources.Limits {
		if _, ok := c.Resources.Requests[name]; !ok {
			if c.Resources.Requests == nil {
				c.Resources.Requests = make(corev1.ResourceList)
			}
			c.Resources.Requests[name] = limit
		}
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p == nil {
			continue
		}
		set(&p.TimeoutSeconds, 1)
		set(&p.PeriodSeconds, 10)
		set(&p.SuccessThreshold, 1)
		set(&p.FailureThreshold, 3)
		if h := p.HTTPGet; h != nil {
			set(&h.Path, "/")
			set(&h.Scheme, corev1.URISchemeHTTP)
		}
		if p.GRPC != nil {
			or(&p.GRPC.Service, "")
		}
	}
}

// pullPolicy is Always for the tag latest, which an image without tag or digest has.
func pullPolicy(image string) corev1.PullPolicy {
	name := image[strings.LastIndexByte(image, '/')+1:]
	if _, tag, ok := strings.Cut(name, ":"); (!ok || tag == "latest") && !strings.Contains(name, "@") {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func volumeDefaults(v *corev1.VolumeSource) {
	switch {
	case *v == (corev1.VolumeSource{}):
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	case v.ConfigMap != nil:
		or(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case v.Secret != nil:
		or(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case v.Projected != nil:
		or(&v.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	case v.DownwardAPI != nil:
		or(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
	case v.HostPath != nil:
		or(&v.HostPath.Type, corev1.HostPathUnset)
	}
}

func serviceDefaults(s *corev1.ServiceSpec) {
	set(&s.Type, corev1.ServiceTypeClusterIP)
	set(&s.SessionAffinity, corev1.ServiceAffinityNone)
	for i := range s.Ports {
		p := &s.Ports[i]
		set(&p.Protocol, corev1.ProtocolTCP)
		set(&p.TargetPort, intstr.FromInt32(p.Port))
	}
	if s.Type == corev1.ServiceTypeExternalName {
		return
	}
	or(&s.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	or(&s.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
	if len(s.IPFamilies) == 0 {
		s.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	if s.Type != corev1.ServiceTypeClusterIP {
		set(&s.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if s.Type == corev1.ServiceTypeLoadBalancer {
		or(&s.AllocateLoadBalancerNodePorts, true)
	}
}

func policyPorts(ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		or(&ports[i].Protocol, corev1.ProtocolTCP)
	}
}

func bindingDefaults(role *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	set(&role.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if subjects[i].Kind != rbacv1.ServiceAccountKind {
			set(&subjects[i].APIGroup, rbacv1.GroupName)
		}
	}
}
