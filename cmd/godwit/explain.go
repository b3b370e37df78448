package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/godwit-gitops/godwit/reconciler/report"
)

func newExplain() *cobra.Command {
	var state, namespace string
	cmd := &cobra.Command{
		Use:   "explain KIND/NAME",
		Short: "Say why a workload runs where it runs",
		Long: `explain decides like "plan" and prints one page about one workload: the policy that took it and those
passed over, every member with the rule that chose or refused it and the values compared, the
overrides step by step, and what was last seen of its copies.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, output, err := configured(cmd, "text", "json", "yaml")
			if err != nil {
				return err
			}
			kind, name, ok := strings.Cut(args[0], "/")
			if len(args) == 2 && !ok {
				name, ok = args[1], true
			}
			if !ok || name == "" {
				return errors.New("name the workload as KIND/NAME, such as Deployment/web")
			}
			d, err := c.decideOnce(cmd.Context(), state, true)
			if err != nil {
				return err
			}
			e, err := report.Explain(d, kind, namespace, name)
			if err != nil {
				return err
			}
			switch output {
			case "json":
				return writeJSON(cmd.OutOrStdout(), e)
			case "yaml":
				return writeYAML(cmd.OutOrStdout(), e)
			}
			e.Text(cmd.OutOrStdout(), style(cmd, cmd.OutOrStdout()))
			return nil
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "previous state: a branch, a folder, or none (default: the state branch, if there is one)")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace (default: whichever has the only one)")
	return cmd
}
