package failover_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/failover"
)

// start is second 0 of every table.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func stamp(seconds int) *metav1.Time { return &metav1.Time{Time: at(seconds)} }

// second is when something is, in seconds since the start; "-" for the zero time.
func second(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return strconv.Itoa(int(t.Sub(start) / time.Second))
}

// binding has the fields of its spec in one line.
func binding(t testing.TB, spec string) *workv1alpha2.ResourceBinding {
	t.Helper()
	text := "apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata: {name: web-deployment, namespace: default}\n" +
		"spec: {resource: {apiVersion: apps/v1, kind: Deployment, namespace: default, name: web}, " + spec + "}\n"
	b, err := record.DecodeBinding("bindings/default/web-deployment.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return b
}

// application is failover.application with a toleration of 60 s and more fields.
func application(more string) string {
	return "failover: {application: {decisionConditions: {tolerationSeconds: 60}" + more + "}}"
}

// copiesOf reads copies, one by comma: "m1 Healthy applied settled created=5 sick=10".
func copiesOf(text string) []workv1alpha2.AggregatedStatusItem {
	var items []workv1alpha2.AggregatedStatusItem
	for one := range strings.SplitSeq(text, ", ") {
		if one == "" {
			continue
		}
		var item workv1alpha2.AggregatedStatusItem
		for i, word := range strings.Fields(one) {
			name, value, _ := strings.Cut(word, "=")
			n, _ := strconv.Atoi(value)
			switch {
			case i == 0:
				item.ClusterName = word
			case name == "applied":
				item.Applied = true
			case name == "settled":
				item.Settled = true
			case name == "created":
				item.CreationTimestamp = stamp(n)
			case name == "sick":
				item.LastHealthTransitionTime = stamp(n)
			default:
				item.Health = workv1alpha2.ResourceHealth(word)
			}
		}
		items = append(items, item)
	}
	return items
}

// copiesText is what copiesOf reads.
func copiesText(items []workv1alpha2.AggregatedStatusItem) string {
	var all []string
	for _, item := range items {
		words := []string{item.ClusterName}
		if item.Health != "" {
			words = append(words, string(item.Health))
		}
		if item.Applied {
			words = append(words, "applied")
		}
		if item.Settled {
			words = append(words, "settled")
		}
		if item.CreationTimestamp != nil {
			words = append(words, "created="+second(item.CreationTimestamp.Time))
		}
		if item.LastHealthTransitionTime != nil {
			words = append(words, "sick="+second(item.LastHealthTransitionTime.Time))
		}
		all = append(all, strings.Join(words, " "))
	}
	return strings.Join(all, ", ")
}

// taintsOf reads the NoExecute taints of a member, one by comma: "fail=value@10", "unreachable@10" for the one
// that the member's health puts there; without a time where that is missing.
func taintsOf(text string) []failover.Taint {
	var taints []failover.Taint
	for one := range strings.SplitSeq(text, ", ") {
		if one == "" {
			continue
		}
		one, since, timed := strings.Cut(one, "@")
		t := failover.Taint{Taint: corev1.Taint{Effect: corev1.TaintEffectNoExecute}}
		t.Key, t.Value, _ = strings.Cut(one, "=")
		if t.Key == "unreachable" || t.Key == "not-ready" {
			t.Key, t.Outage = "cluster.karmada.io/"+t.Key, true
		}
		if timed {
			n, _ := strconv.Atoi(since)
			t.TimeAdded = stamp(n)
		}
		taints = append(taints, t)
	}
	return taints
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func pointer[T any](v T) *T { return &v }

// causesText says what makes a workload leave: "m1 ApplicationFailure 10->70".
func causesText(causes []failover.Cause) []string {
	list := []string{}
	for _, c := range causes {
		list = append(list, fmt.Sprintf("%s %s %s->%s", c.Cluster, c.Kind, second(c.Since), second(c.At)))
	}
	return list
}
