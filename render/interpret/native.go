package interpret

import "github.com/godwit-gitops/godwit/api"

// rules are the native answers for one kind; nil means that the kind has none of its own.
type rules struct {
	replicas func(api.Object) (Replicas, error)
	revise   []string // the field that takes the number
	retain   func(desired, live api.Object) api.Object
	// shared: what is retained is in a value that an apply would set or claim as a whole.
	shared       bool
	aggregate    func(template api.Object, items []StatusItem) api.Object
	dependencies func(api.Object) []Reference
	health       func(live api.Object) bool
	reflect      func(live api.Object) (api.Object, error)
}

func (r rules) has(op Operation) bool {
	switch op {
	case InterpretReplica:
		return r.replicas != nil
	case ReviseReplica:
		return r.revise != nil
	case Retain:
		return r.retain != nil
	case AggregateStatus:
		return r.aggregate != nil
	case InterpretDependency:
		return r.dependencies != nil
	case InterpretHealth:
		return r.health != nil
	case InterpretStatus:
		return r.reflect != nil
	}
	return false
}

var (
	deployment  = kind{"apps", "v1", "Deployment"}
	replicaSet  = kind{"apps", "v1", "ReplicaSet"}
	statefulSet = kind{"apps", "v1", "StatefulSet"}
	daemonSet   = kind{"apps", "v1", "DaemonSet"}
	job         = kind{"batch", "v1", "Job"}
	service     = kind{"", "v1", "Service"}

	specReplicas = []string{"spec", "replicas"}
	podTemplate  = []string{"spec", "template"}
)

// native says which kind has which rule. Kinds that report the whole status have none to reflect it.
var native = map[kind]rules{
	deployment: {
		replicas: templateReplicas, revise: specReplicas, retain: retainDeployment, dependencies: templateDependencies,
		health: rolledOut, reflect: reflectDeployment, aggregate: aggregateCounters(deploymentCounters, templateCaughtUp),
	},
	replicaSet: {
		replicas: templateReplicas, revise: specReplicas, dependencies: templateDependencies,
		health: replicaSetHealthy, reflect: reflectReplicaSet, aggregate: aggregateCounters(replicaSetCounters, templateCaughtUp),
	},
	statefulSet: {
		replicas: templateReplicas, revise: specReplicas, dependencies: statefulSetDependencies,
		health: rolledOut, reflect: reflectStatefulSet, aggregate: aggregateCounters(statefulSetCounters, memberCaughtUp),
	},
	daemonSet: {
		dependencies: templateDependencies,
		health:       daemonSetHealthy, reflect: reflectDaemonSet, aggregate: aggregateCounters(daemonSetCounters, templateCaughtUp),
	},
	job: {
		replicas: jobReplicas, revise: []string{"spec", "parallelism"}, retain: retainJob, dependencies: templateDependencies,
		health: applied, reflect: reflectFields("active", "succeeded", "failed", "conditions", "startTime", "completionTime"), aggregate: aggregateJob,
	},
	{"batch", "v1", "CronJob"}: {
		dependencies: cronJobDependencies, health: applied, aggregate: aggregateCronJob,
	},
	{"", "v1", "Pod"}: {
		replicas: podReplicas, retain: retainPod, dependencies: podDependencies, health: podHealthy, aggregate: aggregatePod,
	},
	service: {
		retain: retainService, health: serviceHealthy, reflect: reflectService, aggregate: aggregateService,
	},
	{"networking.k8s.io", "v1", "Ingress"}: {
		dependencies: ingressDependencies, health: addressed, aggregate: aggregateIngress,
	},
	{"", "v1", "PersistentVolume"}:      {retain: retainPersistentVolume, aggregate: aggregatePersistentVolume},
	{"", "v1", "PersistentVolumeClaim"}: {retain: retainPersistentVolumeClaim, health: claimHealthy, aggregate: aggregatePersistentVolumeClaim},
	{"", "v1", "ServiceAccount"}:        {retain: retainServiceAccount, shared: true},
	{"", "v1", "Secret"}:                {retain: retainSecret, shared: true},
	{"policy", "v1", "PodDisruptionBudget"}: {
		health:    budgetHealthy,
		reflect:   reflectFields("disruptionsAllowed", "expectedPods", "desiredHealthy", "currentHealthy", "disruptedPods"),
		aggregate: aggregatePodDisruptionBudget,
	},
	{"autoscaling", "v2", "HorizontalPodAutoscaler"}: {
		reflect: reflectFields("currentReplicas", "desiredReplicas"), aggregate: aggregateHorizontalPodAutoscaler,
	},
	{"multicluster.x-k8s.io", "v1alpha1", "ServiceImport"}: {dependencies: serviceImportDependencies},
}
