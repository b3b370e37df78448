package override

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindings(t *testing.T) {
	for _, test := range []struct {
		name, kind, spec string
		want             []string // "line severity code field"; the spec begins in line 4
	}{
		{"clean", "OverridePolicy", `
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, namespace: default}]
  overrideRules: [{overriders: {plaintext: [{path: /a, operator: add, value: 1}]}}]`, nil},
		{"both forms", "OverridePolicy", `
  targetCluster: {clusterNames: [a]}
  overriders: {labelsOverrider: [{operator: add, value: {a: b}}]}
  overrideRules: [{overriders: {}}]`, []string{
			"5 error override-conflict spec.targetCluster",
			"6 error override-conflict spec.overriders",
		}},
		{"an old fieldOverrider beside rules", "OverridePolicy", `
  overriders: {fieldOverrider: [{fieldPath: /a, json: [{subPath: /b, operator: remove}]}]}
  overrideRules: [{overriders: {}}]`, nil},
		{"old form", "OverridePolicy", `
  targetCluster: {fieldSelector: {matchExpressions: [{key: rack, operator: Exists}]}}
  overriders: {labelsOverrider: [{operator: add, value: {"a b": "c d"}}], commandOverrider: [{containerName: a, operator: replace}]}`, []string{
			"5 warning deprecated spec.targetCluster",
			"5 error field-selector spec.targetCluster.fieldSelector.matchExpressions[0].key",
			"5 error field-selector spec.targetCluster.fieldSelector.matchExpressions[0].operator",
			"6 warning deprecated spec.overriders",
			"6 error unknown-value spec.overriders.commandOverrider[0].operator",
		}},
		{"selectors", "OverridePolicy", `
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, namespace: prod}
  - {apiVersion: v1, name: x}
  - {apiVersion: v1, kind: Node}
  - {apiVersion: v1, kind: ConfigMap, name: x, labelSelector: {}}
  - {apiVersion: v1, kind: ConfigMap, labelSelector: {matchExpressions: [{key: a, operator: Within}]}}`, []string{
			"6 error other-namespace spec.resourceSelectors[0].namespace",
			"7 error missing-value spec.resourceSelectors[1].kind",
			"8 warning cluster-scoped-kind spec.resourceSelectors[2].kind",
			"9 warning label-selector-ignored spec.resourceSelectors[3].labelSelector",
			"10 error invalid-label-selector spec.resourceSelectors[4].labelSelector",
		}},
		{"any namespace in a cluster policy", "ClusterOverridePolicy", `
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, namespace: prod}, {apiVersion: v1, kind: Node}]`, nil},
		{"labels and annotations", "OverridePolicy", `
  overrideRules:
  - overriders:
      labelsOverrider:
      - {operator: add, value: {"a b": x}}
      - {operator: add, value: {a: "x y"}}
      - {operator: set, value: {a: x}}
      annotationsOverrider:
      - {operator: add, value: {"A.b/c": "any text"}}
      - {operator: add, value: {"a/b/c": x}}
      - {operator: add, value: {a: "` + strings.Repeat("x", maxAnnotations) + `"}}
      - {value: {a: x}}`, []string{
			"8 error label-key spec.overrideRules[0].overriders.labelsOverrider[0].value[a b]",
			"9 error label-value spec.overrideRules[0].overriders.labelsOverrider[1].value.a",
			"10 error unknown-value spec.overrideRules[0].overriders.labelsOverrider[2].operator",
			"13 error label-key spec.overrideRules[0].overriders.annotationsOverrider[1].value[a/b/c]",
			"14 error annotations-too-long spec.overrideRules[0].overriders.annotationsOverrider[2].value",
			"15 error missing-value spec.overrideRules[0].overriders.annotationsOverrider[3].operator",
		}},
		{"images", "OverridePolicy", `
  resourceSelectors: [{apiVersion: batch/v1, kind: CronJob}]
  overrideRules:
  - overriders:
      imageOverrider:
      - {component: Tag, operator: replace, value: v1}
      - {component: Tag, operator: replace, value: "@sha256:00", predicate: {path: /a}}
      - {component: Tag, operator: replace, value: "v 1", predicate: {path: /a}}
      - {component: Registry, operator: remove, predicate: {path: spec/image}}
      - {component: Registry, operator: remove, predicate: {}}
      - {operator: remove, predicate: {path: /a}}`, []string{
			"9 warning image-override-no-effect spec.overrideRules[0].overriders.imageOverrider[0]",
			"10 warning tag-at-sign spec.overrideRules[0].overriders.imageOverrider[1].value",
			"11 warning tag-no-effect spec.overrideRules[0].overriders.imageOverrider[2].value",
			"12 error json-pointer spec.overrideRules[0].overriders.imageOverrider[3].predicate.path",
			"13 error missing-value spec.overrideRules[0].overriders.imageOverrider[4].predicate.path",
			"14 error missing-value spec.overrideRules[0].overriders.imageOverrider[5].component",
		}},
		{"fields", "OverridePolicy", `
  overrideRules:
  - overriders:
      fieldOverrider:
      - {fieldPath: /a, json: [{subPath: /b, operator: remove}], yaml: [{subPath: /b, operator: remove}]}
      - {fieldPath: /a}
      - fieldPath: a
        json:
        - {subPath: b, operator: remove}
        - {subPath: /b, operator: remove, value: 1}
        - {subPath: /b, operator: add}
        - {subPath: /b, operator: move, value: 1}
        - {subPath: /b, operator: replace, value: ""}`, []string{
			"8 error field-conflict spec.overrideRules[0].overriders.fieldOverrider[0]",
			"9 error missing-value spec.overrideRules[0].overriders.fieldOverrider[1]",
			"10 error json-pointer spec.overrideRules[0].overriders.fieldOverrider[2].fieldPath",
			"12 error json-pointer spec.overrideRules[0].overriders.fieldOverrider[2].json[0].subPath",
			"13 error value-not-wanted spec.overrideRules[0].overriders.fieldOverrider[2].json[1].value",
			"14 error missing-value spec.overrideRules[0].overriders.fieldOverrider[2].json[2].value",
			"15 error unknown-value spec.overrideRules[0].overriders.fieldOverrider[2].json[3].operator",
		}},
		{"words", "OverridePolicy", `
  overrideRules:
  - overriders:
      commandOverrider: [{operator: add, value: [a]}]
      argsOverrider: [{containerName: a, operator: replace, value: [a]}]
      plaintext:
      - {path: spec/replicas, operator: add, value: 1}
      - {path: /spec/replicas, operator: test, value: 1}`, []string{
			"7 error missing-value spec.overrideRules[0].overriders.commandOverrider[0].containerName",
			"8 error unknown-value spec.overrideRules[0].overriders.argsOverrider[0].operator",
			"10 warning json-pointer spec.overrideRules[0].overriders.plaintext[0].path",
			"11 error unknown-value spec.overrideRules[0].overriders.plaintext[1].operator",
		}},
		{"unknown field", "OverridePolicy", `
  overrideRules: [{targetClusters: {}, overriders: {}}]`, []string{"5 error unknown-field spec.overrideRules[0].targetClusters"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := "apiVersion: policy.karmada.io/v1alpha1\nkind: " + test.kind + "\nmetadata: {name: a}\nspec:" + test.spec
			_, findings := Compile(manifests(t, text))
			var got []string
			for _, f := range findings {
				field, _, _ := strings.Cut(f.Message, ": ")
				got = append(got, fmt.Sprintf("%d %s %s %s", f.Line, f.Severity, f.Code, field))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAPlaintextPathThatIsNoPointerFailsTheRendering(t *testing.T) {
	s, _ := Compile(manifests(t, policyText("OverridePolicy", "a", "[]", "{plaintext: [{path: spec/replicas, operator: add, value: 1}]}")))
	got := apply(t, s, object(t, web))
	if want := `plaintext[0]: add: "spec/replicas" is no JSON Pointer; begin it with /`; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end with %q", got, want)
	}
}
