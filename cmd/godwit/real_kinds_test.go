//go:build realcluster

package main_test

import (
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	secrets         = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	serviceAccounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	claims          = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	boats           = schema.GroupVersionResource{Group: "kinds.godwit.dev", Version: "v1", Resource: "boats"}
)

// needy is a Deployment and all that it needs.
const needy = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: needy, labels: {app: needy}}
spec:
  replicas: 2
  selector: {matchLabels: {app: needy}}
  template:
    metadata: {labels: {app: needy}}
    spec:
      serviceAccountName: needy
      containers:
      - name: main
        image: nginx:1
        envFrom: [{configMapRef: {name: needy}}, {secretRef: {name: needy}}]
        volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: needy}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: needy}
data: {mode: fast}
---
apiVersion: v1
kind: Secret
metadata: {name: needy}
stringData: {token: not-for-the-record}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: needy}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: needy}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
`

func (w *realWorld) whatAWorkloadNeedsGoesAlong(t *testing.T) {
	f := w.fleet(t, "needs", "kube02", "kube03")
	f.settings = "safety: {maxDeletePercent: 100}\n" // all of a member moves away
	policy := func(member string) string {
		return policyFor("{clusterAffinity: {clusterNames: ["+member+"]}}", "Deployment") + "  propagateDeps: true\n"
	}
	kinds := map[string]schema.GroupVersionResource{"Deployment": deployments, "ConfigMap": configMaps, "Secret": secrets, "ServiceAccount": serviceAccounts, "PersistentVolumeClaim": claims}
	runsOn := func(member string) {
		t.Helper()
		f.everywhere("what is needed on "+member, func(m *realMember) string {
			for kind, resource := range kinds {
				if why := want(kind, m.get(t, resource, f.ns, "needy") != nil, m.Name() == member); why != "" {
					return why
				}
			}
			return ""
		})
	}
	f.push(merged(f.clusters(), map[string]string{"needy.yaml": needy, "policy.yaml": policy("kube02")}), "an application with all that it needs")
	f.run()
	runsOn("kube02")
	since := f.head()
	f.push(map[string]string{"policy.yaml": policy("kube03")}, "it moves")
	runsOn("kube03")
	eventually(t, "the move", func() string {
		if got := f.decisions(since); len(got) == 0 || !strings.HasPrefix(got[0], "PolicyChange: ") {
			return strings.Join(got, "\n")
		}
		return ""
	})
	f.push(map[string]string{"needy.yaml": strings.Replace(needy, "{configMapRef: {name: needy}}, ", "", 1)}, "one need less")
	eventually(t, "what nobody needs", func() string {
		return want("ConfigMap", f.members[1].get(t, configMaps, f.ns, "needy") == nil, true)
	})
	if f.members[1].get(t, secrets, f.ns, "needy") == nil {
		t.Error("the Secret went, which is needed still")
	}
}

const boat = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.kinds.godwit.dev}
spec:
  group: kinds.godwit.dev
  scope: Namespaced
  names: {kind: Boat, plural: boats, singular: boat}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: kinds.godwit.dev/v1
kind: Boat
metadata: {name: ark}
spec: {seats: 2, anchor: up}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: boats}
spec:
  resourceSelectors: [{apiVersion: kinds.godwit.dev/v1, kind: Boat}]
  placement: {}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: boats}
spec:
  resourceSelectors: [{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: boats.kinds.godwit.dev}]
  placement: {}
`

const boatRules = `
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: boats}
spec:
  target: {apiVersion: kinds.godwit.dev/v1, kind: Boat}
  customizations:
    healthInterpretation:
      luaScript: |
        function InterpretHealth(observed)
          local status = observed.status or {}
          return status.afloat == true
        end
    retention:
      luaScript: |
        function Retain(desired, observed)
          desired.spec.anchor = observed.spec.anchor
          return desired
        end
`

func (w *realWorld) aUsersRuleSaysWhatACustomResourceMeans(t *testing.T) {
	f := w.fleet(t, "boats", "kube02", "kube03")
	f.push(merged(f.clusters(), map[string]string{"boat.yaml": boat, "rules.yaml": boatRules}), "a kind, an object, and what it means")
	f.run()
	f.everywhere("Boat", func(m *realMember) string {
		return want("seats", field(m.get(t, boats, f.ns, "ark"), "spec", "seats"), int64(2))
	})
	health := func(what, pattern string) {
		t.Helper()
		eventually(t, what, func() string {
			binding := f.state.Files(stateBranch)["bindings/"+f.ns+"/ark-boat.yaml"]
			if !regexp.MustCompile(pattern).MatchString(binding) {
				return binding
			}
			return ""
		})
	}
	f.members[0].patch(t, boats, f.ns, "ark", `{"status": {"afloat": true}}`, "status")
	f.members[1].patch(t, boats, f.ns, "ark", `{"status": {"afloat": true}}`, "status")
	health("both afloat", `clusterName: kube02\n +health: Healthy\n(.*\n)*.*clusterName: kube03\n +health: Healthy`)
	f.members[1].patch(t, boats, f.ns, "ark", `{"status": {"afloat": false}}`, "status")
	health("one sinks", `clusterName: kube02\n +health: Healthy\n(.*\n)*.*clusterName: kube03\n +health: Unhealthy`)
	out, status := f.call("get", "boats", "ark", "-n", f.ns, "-o", "wide")
	for _, row := range []string{`\nark +kube02 .* Healthy\n`, `\nark +kube03 .* Unhealthy\n`} {
		if status != 0 || !regexp.MustCompile(row).MatchString(out) {
			t.Errorf("get = %d, without %q\n%s", status, row, out)
		}
	}
	// What the rule retains is the member's, whatever else the template changes.
	f.members[0].patch(t, boats, f.ns, "ark", `{"spec": {"anchor": "down"}}`)
	f.push(map[string]string{"boat.yaml": strings.Replace(boat, "seats: 2", "seats: 3", 1)}, "a seat more")
	f.everywhere("seats", func(m *realMember) string {
		return want("seats", field(m.get(t, boats, f.ns, "ark"), "spec", "seats"), int64(3))
	})
	for i, anchor := range []string{"down", "up"} {
		if why := want("anchor on "+f.members[i].Name(), field(f.members[i].get(t, boats, f.ns, "ark"), "spec", "anchor"), anchor); why != "" {
			t.Error(why)
		}
	}
}
