package main

import (
	"context"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/gitstate/source"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// printing gives a command the flag -o with the forms that it prints, the first by default.
func printing(cmd *cobra.Command, forms ...string) *cobra.Command {
	last := len(forms) - 1
	cmd.Flags().StringP("output", "o", forms[0], "how to print the result: "+strings.Join(forms[:last], ", ")+" or "+forms[last])
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[annotationForms] = strings.Join(forms, " ")
	completeFlag(cmd, "output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// annotationForms has what printing was told.
const annotationForms = "forms"

// configured reads the settings of a command and the form of its output.
func configured(cmd *cobra.Command) (c *Config, output string, err error) {
	output, err = cmd.Flags().GetString("output")
	if err != nil {
		return nil, "", err
	}
	forms := strings.Fields(cmd.Annotations[annotationForms])
	if !slices.Contains(forms, output) {
		return nil, "", fmt.Errorf("-o %s: is not one of %s here", output, strings.Join(forms, ", "))
	}
	if c, err = loadConfig(cmd); err != nil {
		return nil, "", err
	}
	endOnHangup(cmd)
	if c.progress = newProgress(cmd); c.progress != nil {
		c.notes = c.progress
	}
	return c, output, nil
}

// endOnHangup has a command that prints end when its terminal goes, as on SIGTERM: else what it made for a while would stay.
// Who is to go on then, as nohup has it, goes on. To run it is a wish to read the configuration again.
func endOnHangup(cmd *cobra.Command) {
	if signal.Ignored(syscall.SIGHUP) {
		return
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
	context.AfterFunc(cmd.Context(), stop)
	cmd.SetContext(ctx)
}

func completeFlag(cmd *cobra.Command, name string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(name, f); err != nil {
		panic(err) // there is no such flag, or it is completed already
	}
}

// completeClusters completes the names of members, several separated by commas where the flag takes them.
func completeClusters(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	var names []cobra.Completion
	if d := decideHere(cmd); d != nil {
		for _, name := range membersOf(d.Next) {
			if strings.HasPrefix(before+name, typed) && !slices.Contains(append(args, strings.Split(before, ",")...), name) {
				names = append(names, before+name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeCluster completes one.
func completeCluster(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeClusters(cmd, args, typed)
}

// completeWorkload completes KIND/NAME.
func completeWorkload(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	d := decideHere(cmd)
	if d == nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, b := range d.Bindings {
		if name := b.Template.Kind + "/" + b.Template.Name; strings.HasPrefix(strings.ToLower(name), strings.ToLower(typed)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

// decideHere decides on the folder that is the source, for names that are in it. It is nil where the source is a
// repository: a key pressed in a shell fetches nothing.
func decideHere(cmd *cobra.Command) *decide.Decision {
	c, err := loadConfig(cmd)
	if err != nil || c.sourceDir == "" {
		return nil
	}
	snapshot, err := source.OpenFolder(c.sourceDir, c.Source.Path).Fetch(cmd.Context())
	if err != nil {
		return nil
	}
	options := c.options()
	options.Keyless = true
	d, err := decide.Next(decide.Input{Source: snapshot, Previous: record.New(), Now: time.Now(), Options: options})
	if err != nil {
		return nil
	}
	return d
}
