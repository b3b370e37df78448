package interpret

import (
	"slices"

	"github.com/godwit-gitops/godwit/api"
)

const (
	// retainReplicas is the label by which a template leaves the number of replicas to the members.
	retainReplicas = "resourcetemplate.karmada.io/retain-replicas"

	serviceAccountToken = "kubernetes.io/service-account-token"
)

// keep is desired with the member's value at path, if it has one.
func keep(desired, live api.Object, path ...string) api.Object {
	if v := at(live, path...); v != nil {
		return with(desired, v, path...)
	}
	return desired
}

func retainDeployment(desired, live api.Object) api.Object {
	if text(at(desired, "metadata", "labels", retainReplicas)) != "true" {
		return desired
	}
	return keep(desired, live, specReplicas...)
}

// retainPod keeps where the pod runs and what admission on the member mounted into it: almost
// nothing of a running pod may change.
func retainPod(desired, live api.Object) api.Object {
	for _, field := range []string{"nodeName", "serviceAccountName", "volumes"} {
		desired = keep(desired, live, "spec", field)
	}
	for _, field := range []string{"containers", "initContainers"} {
		containers, changed := slices.Clone(list(at(desired, "spec", field))), false
		for n, container := range containers {
			for _, running := range list(at(live, "spec", field)) {
				if object(container) != nil && text(at(container, "name")) == text(at(running, "name")) && at(running, "volumeMounts") != nil {
					containers[n], changed = with(object(container), at(running, "volumeMounts"), "volumeMounts"), true
				}
			}
		}
		if changed {
			desired = with(desired, containers, "spec", field)
		}
	}
	return desired
}

func retainService(desired, live api.Object) api.Object {
	if number(at(live, "spec", "healthCheckNodePort")) > 0 {
		desired = keep(desired, live, "spec", "healthCheckNodePort")
	}
	if text(at(live, "spec", "clusterIP")) != "" {
		desired = keep(desired, live, "spec", "clusterIP")
	}
	return desired
}

// retainServiceAccount unites the secrets by name: the member's token controller adds some.
func retainServiceAccount(desired, live api.Object) api.Object {
	for _, field := range []string{"secrets", "imagePullSecrets"} {
		united := slices.Clone(list(desired[field]))
		for _, entry := range list(live[field]) {
			if !slices.ContainsFunc(united, func(have any) bool { return text(at(have, "name")) == text(at(entry, "name")) }) {
				united = append(united, entry)
			}
		}
		if len(united) > len(list(desired[field])) {
			desired = with(desired, united, field)
		}
	}
	return desired
}

func retainJob(desired, live api.Object) api.Object {
	desired = keep(desired, live, "spec", "selector", "matchLabels")
	return keep(desired, live, "spec", "template", "metadata", "labels")
}

func retainPersistentVolume(desired, live api.Object) api.Object {
	return keep(desired, live, "spec", "claimRef")
}

func retainPersistentVolumeClaim(desired, live api.Object) api.Object {
	return keep(desired, live, "spec", "volumeName")
}

func retainSecret(desired, live api.Object) api.Object {
	if text(desired["type"]) != serviceAccountToken {
		return desired
	}
	return keep(desired, live, "data")
}
