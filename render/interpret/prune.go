package interpret

import (
	"strings"

	"github.com/godwit-gitops/godwit/api"
)

var (
	metadataPath    = []string{"metadata"}
	annotationsPath = []string{"metadata", "annotations"}

	// serverFields are filled in by an API server and mean nothing on another cluster.
	serverFields = []string{
		"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields",
		"resourceVersion", "selfLink", "uid", "ownerReferences", "finalizers",
	}
	jobSelectorLabels = []string{"controller-uid", "batch.kubernetes.io/controller-uid"}
	jobPodLabels      = append([]string{"job-name", "batch.kubernetes.io/job-name"}, jobSelectorLabels...)
)

// prunes go by the kind's name alone, whatever its group.
var prunes = map[string]func(api.Object) api.Object{
	"Deployment": func(o api.Object) api.Object {
		return without(o, annotationsPath, "deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history")
	},
	"Job":            pruneJob,
	"ServiceAccount": pruneServiceAccount,
	"Service": func(o api.Object) api.Object {
		if text(at(o, "spec", "clusterIP")) == "None" {
			return o
		}
		return without(o, []string{"spec"}, "clusterIP", "clusterIPs")
	},
	"Secret": func(o api.Object) api.Object {
		if text(o["type"]) != serviceAccountToken {
			return o
		}
		o = without(o, annotationsPath, "kubernetes.io/service-account.uid")
		return with(o, nil, "data")
	},
	"PersistentVolumeClaim": func(o api.Object) api.Object {
		return without(o, annotationsPath, "volume.kubernetes.io/selected-node")
	},
}

// Prune takes away what belongs to the cluster an object came from: what the API server filled in,
// the status, and what controllers add to some kinds. It is o itself if there is nothing of that.
func Prune(o api.Object) api.Object {
	o = without(o, nil, "status")
	o = without(o, metadataPath, serverFields...)
	if prune := prunes[text(o["kind"])]; prune != nil {
		o = prune(o)
	}
	return o
}

// pruneJob removes what ties a Job to the UID of one copy of it, and the time to live: a member
// that deletes a finished copy would get it anew.
func pruneJob(o api.Object) api.Object {
	if manual, _ := at(o, "spec", "manualSelector").(bool); !manual {
		o = without(o, []string{"spec", "selector", "matchLabels"}, jobSelectorLabels...)
		o = without(o, []string{"spec", "template", "metadata", "labels"}, jobPodLabels...)
	}
	return without(o, []string{"spec"}, "ttlSecondsAfterFinished")
}

// pruneServiceAccount removes the token secrets that a cluster made for the account.
func pruneServiceAccount(o api.Object) api.Object {
	secrets := list(o["secrets"])
	prefix := text(at(o, "metadata", "name")) + "-token-"
	kept := make([]any, 0, len(secrets))
	for _, secret := range secrets {
		if !strings.HasPrefix(text(at(secret, "name")), prefix) {
			kept = append(kept, secret)
		}
	}
	if len(kept) == len(secrets) {
		return o
	}
	return with(o, kept, "secrets")
}
