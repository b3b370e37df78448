package interpret

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
)

func (r Reference) selector() string {
	if r.LabelSelector == nil {
		return ""
	}
	return metav1.FormatLabelSelector(r.LabelSelector)
}

// String is "Kind namespace/name", or the selector in braces instead of the name.
func (r Reference) String() string {
	id := api.ID{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
	if r.LabelSelector != nil {
		id.Name = "{" + r.selector() + "}"
	}
	return id.String()
}

func (r Reference) validate() error {
	switch {
	case r.APIVersion == "":
		return errors.New("a reference has no apiVersion")
	case r.Kind == "":
		return errors.New("a reference has no kind")
	case r.Name == "" && r.LabelSelector == nil:
		return fmt.Errorf("a reference to %s %s has neither name nor labelSelector", r.APIVersion, r.Kind)
	}
	if _, err := metav1.LabelSelectorAsSelector(r.LabelSelector); err != nil {
		return fmt.Errorf("a reference to %s %s has an invalid labelSelector: %w", r.APIVersion, r.Kind, err)
	}
	return nil
}

// secretSources are the volumes that name a Secret, with the path to its name.
var secretSources = [][]string{
	{"secret", "secretName"},
	{"azureFile", "secretName"},
	{"cephfs", "secretRef", "name"},
	{"cinder", "secretRef", "name"},
	{"flexVolume", "secretRef", "name"},
	{"rbd", "secretRef", "name"},
	{"scaleIO", "secretRef", "name"},
	{"iscsi", "secretRef", "name"},
	{"storageos", "secretRef", "name"},
	{"csi", "nodePublishSecretRef", "name"},
}

// podReferences are what pods of this spec need in their namespace: ConfigMaps, Secrets, claims and
// the service account. Services, autoscalers, budgets and RBAC objects are not among them.
func podReferences(spec map[string]any, namespace string) []Reference {
	var found []Reference
	refer := func(kind string, name any) {
		if name := text(name); name != "" {
			found = append(found, Reference{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name})
		}
	}
	for _, containers := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, container := range list(spec[containers]) {
			for _, from := range list(at(container, "envFrom")) {
				refer("ConfigMap", at(from, "configMapRef", "name"))
				refer("Secret", at(from, "secretRef", "name"))
			}
			for _, env := range list(at(container, "env")) {
				refer("ConfigMap", at(env, "valueFrom", "configMapKeyRef", "name"))
				refer("Secret", at(env, "valueFrom", "secretKeyRef", "name"))
			}
		}
	}
	for _, secret := range list(spec["imagePullSecrets"]) {
		refer("Secret", at(secret, "name"))
	}
	for _, volume := range list(spec["volumes"]) {
		refer("ConfigMap", at(volume, "configMap", "name"))
		refer("PersistentVolumeClaim", at(volume, "persistentVolumeClaim", "claimName"))
		for _, path := range secretSources {
			refer("Secret", at(volume, path...))
		}
		for _, source := range list(at(volume, "projected", "sources")) {
			refer("ConfigMap", at(source, "configMap", "name"))
			refer("Secret", at(source, "secret", "name"))
		}
	}
	if account := text(spec["serviceAccountName"]); account != "default" {
		refer("ServiceAccount", account)
	}
	return found
}

func namespaceOf(o api.Object) string { return text(at(o, "metadata", "namespace")) }

func templateDependencies(o api.Object) []Reference {
	return podReferences(object(at(o, "spec", "template", "spec")), namespaceOf(o))
}

func podDependencies(o api.Object) []Reference {
	return podReferences(object(o["spec"]), namespaceOf(o))
}

func cronJobDependencies(o api.Object) []Reference {
	return podReferences(object(at(o, "spec", "jobTemplate", "spec", "template", "spec")), namespaceOf(o))
}

// statefulSetDependencies leaves out the claims that the StatefulSet makes for itself.
func statefulSetDependencies(o api.Object) []Reference {
	own := make(map[string]bool)
	for _, template := range list(at(o, "spec", "volumeClaimTemplates")) {
		own[text(at(template, "metadata", "name"))] = true
	}
	return slices.DeleteFunc(templateDependencies(o), func(r Reference) bool {
		return r.Kind == "PersistentVolumeClaim" && own[r.Name]
	})
}

func ingressDependencies(o api.Object) []Reference {
	var found []Reference
	for _, tls := range list(at(o, "spec", "tls")) {
		if name := text(at(tls, "secretName")); name != "" {
			found = append(found, Reference{APIVersion: "v1", Kind: "Secret", Namespace: namespaceOf(o), Name: name})
		}
	}
	return found
}

// serviceImportDependencies are the Service that stands for the import, and its endpoints.
func serviceImportDependencies(o api.Object) []Reference {
	derived := "derived-" + text(at(o, "metadata", "name"))
	return []Reference{
		{APIVersion: "v1", Kind: "Service", Namespace: namespaceOf(o), Name: derived},
		{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice", Namespace: namespaceOf(o), LabelSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/service-name": derived},
		}},
	}
}
