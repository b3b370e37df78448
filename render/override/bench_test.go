package override

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/godwit-gitops/godwit/api"
)

// typical is a Deployment of 1.5 KB.
const typical = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: default
  labels: {app: web, tier: frontend, team: payments, app.kubernetes.io/version: "1"}
  annotations: {owner: team-a, docs: "https://docs.example.com/web"}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: web, tier: frontend}, annotations: {prometheus.io/scrape: "true"}}
    spec:
      serviceAccountName: web
      containers:
      - name: app
        image: registry.example.com/shop/web:v1.4.2
        command: [/bin/web]
        args: [--port=8080, --log=info]
        ports: [{name: http, containerPort: 8080}, {name: metrics, containerPort: 9090}]
        env: [{name: A, value: a}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}]
        resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {cpu: "1", memory: 512Mi}}
        livenessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 10}
        readinessProbe: {httpGet: {path: /readyz, port: http}, periodSeconds: 5}
        volumeMounts: [{name: conf, mountPath: /etc/web}]
      - name: proxy
        image: envoyproxy/envoy:v1.31.0
        resources: {requests: {cpu: 50m}}
      volumes: [{name: conf, configMap: {name: web}}]
`

// overridden has a policy with an image and a plaintext override that applies, among others that do not.
func overridden(b *testing.B, others int) *Set {
	var policies strings.Builder
	policies.WriteString(policyText("OverridePolicy", "web", "[{apiVersion: apps/v1, kind: Deployment, name: web}]",
		"{imageOverrider: [{component: Registry, operator: replace, value: eu.example.com}], plaintext: [{path: /spec/replicas, operator: replace, value: 5}]}"))
	for i := range others {
		policies.WriteString(policyText("OverridePolicy", fmt.Sprintf("other-%d", i),
			fmt.Sprintf("[{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {app: other-%d}}}]", i), mark("x")))
	}
	return compile(b, policies.String())
}

func BenchmarkApply(b *testing.B) {
	for _, others := range []int{0, 1000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			s, o := overridden(b, others), object(b, typical)
			id := api.IDOf(o)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Apply(o, id, kube01, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkJSONPatch is the peer: the same change by a patch on marshalled JSON, its matching left out.
func BenchmarkJSONPatch(b *testing.B) {
	o := object(b, typical)
	patch, err := jsonpatch.DecodePatch([]byte(`[
		{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"eu.example.com/shop/web:v1.4.2"},
		{"op":"replace","path":"/spec/template/spec/containers/1/image","value":"eu.example.com/envoyproxy/envoy:v1.31.0"},
		{"op":"replace","path":"/spec/replicas","value":5}]`))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		text, err := json.Marshal(o)
		if err != nil {
			b.Fatal(err)
		}
		if text, err = patch.Apply(text); err != nil {
			b.Fatal(err)
		}
		var patched map[string]any
		if err := json.Unmarshal(text, &patched); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkKey(b *testing.B) {
	s, o := overridden(b, 1000), object(b, typical)
	id, labels := api.IDOf(o), labelsOf(o)
	b.ReportAllocs()
	for b.Loop() {
		s.Key(id, labels, kube01)
	}
}
