package main

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
)

func newClusters() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "clusters",
		Short: "List the members: mode, version, ready, taints, age; join, unjoin, cordon, uncordon and taint them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, output, err := configured(cmd)
			if err != nil {
				return err
			}
			members, err := c.registrations(cmd.Context())
			if err != nil {
				return err
			}
			list := make([]*clusterv1alpha1.Cluster, 0, len(members))
			for _, name := range slices.Sorted(maps.Keys(members)) {
				list = append(list, members[name])
			}
			switch output {
			case "json":
				return writeJSON(cmd.OutOrStdout(), map[string]any{"items": list})
			case "yaml":
				return writeYAML(cmd.OutOrStdout(), map[string]any{"items": list})
			}
			return report.Table(cmd.OutOrStdout(), style(cmd, cmd.OutOrStdout()), clusterRows(list, output == "wide"))
		},
	}
	cmd.AddCommand(newJoin(), newUnjoin(), newCordon(), newUncordon(), newTaint())
	return printing(cmd, "text", "wide", "json", "yaml")
}

func clusterRows(list []*clusterv1alpha1.Cluster, wide bool) [][]string {
	heads := []string{"NAME", "MODE", "VERSION", "READY", "TAINTS", "AGE"}
	if wide {
		heads = append(heads, "PROVIDER", "REGION", "ZONES", "ENDPOINT", "REASON")
	}
	rows := [][]string{heads}
	for _, c := range list {
		ready, since, reason := "Unknown", "", ""
		for _, cond := range c.Status.Conditions {
			if cond.Type == clusterv1alpha1.ConditionReady {
				ready, since, reason = string(cond.Status), age(cond.LastTransitionTime.Time), cond.Reason
				if cond.Status != metav1.ConditionTrue && cond.Message != "" {
					reason += ": " + cond.Message
				}
			}
		}
		taints := make([]string, len(c.Spec.Taints))
		for i, t := range c.Spec.Taints {
			taints[i] = t.ToString()
		}
		row := []string{c.Name, mode(c), orNone(c.Status.KubernetesVersion), ready, orNone(strings.Join(taints, ",")), orNone(since)}
		if wide {
			row = append(row, orNone(c.Spec.Provider), orNone(c.Spec.Region), orNone(strings.Join(c.Spec.Zones, ",")), orNone(c.Spec.APIEndpoint), orNone(reason))
		}
		rows = append(rows, row)
	}
	return rows
}

// mode is how works come to a member: Push, Pull or Hydrate.
func mode(c *clusterv1alpha1.Cluster) string {
	if decide.DeliveryOf(c) == decide.DeliveryHydrate {
		return "Hydrate"
	}
	return string(c.Spec.SyncMode)
}

func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

// failing is a way to a member that there are no credentials for.
type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }
