package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// newRoot is the command tree. stop ends the context of a command that was asked to stop.
func newRoot(stop func()) *cobra.Command {
	root := &cobra.Command{
		Use:   "godwit",
		Short: "Keeps applications placed across many Kubernetes clusters, driven from Git",
		Long: `godwit reads Karmada-style policies and manifests from a Git repository, decides which member
cluster runs what, commits every decision to a state branch, and then applies it.

Exit status: 0 done; 1 error; 2 with --detailed-exitcode, there are changes; 3 findings of severity
error in the input; 4 some members failed.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	commonFlags(root.PersistentFlags())
	root.AddCommand(newRun(), newPlan(), newExplain(), newRender(), newValidate(), newHistory(), newReplay(), newApprove(), newGet(), newInterpret(), newClusters(), newSimulate(), newDemo(stop), newVersion())
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		_, err := io.WriteString(cmd.OutOrStdout(), version+"\n")
		return err
	}}
}

// logger writes to stderr.
func logger(cmd *cobra.Command, c *Config) *slog.Logger {
	level := slog.LevelInfo
	if n, _ := cmd.Flags().GetCount("verbose"); n > 0 {
		level = slog.LevelDebug
	}
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), options))
	}
	return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), options))
}

// nameOf makes a folder's name of a URL or path: readable, and different for different ones.
func nameOf(url string) string {
	if url == "" {
		return "default"
	}
	if abs, err := filepath.Abs(url); err == nil && !strings.Contains(url, ":") {
		url = abs
	}
	sum := sha256.Sum256([]byte(url))
	base := strings.TrimSuffix(filepath.Base(strings.TrimRight(url, "/")), ".git")
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, base) + "-" + hex.EncodeToString(sum[:4])
}

// configured reads the settings of a command and the form of its output, which is one of the allowed.
func configured(cmd *cobra.Command, allowed ...string) (c *Config, output string, err error) {
	output, err = cmd.Flags().GetString("output")
	if err != nil {
		return nil, "", err
	}
	if !slices.Contains(allowed, output) {
		return nil, "", fmt.Errorf("-o %s: is not one of %v here", output, allowed)
	}
	c, err = loadConfig(cmd)
	return c, output, err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func writeYAML(w io.Writer, v any) error {
	text, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// printReport prints a report in one of the forms that reports have.
func printReport(w io.Writer, output string, v any, markdown func() string, text func(io.Writer) error) error {
	switch output {
	case "json":
		return writeJSON(w, v)
	case "yaml":
		return writeYAML(w, v)
	case "markdown":
		_, err := io.WriteString(w, markdown())
		return err
	}
	return text(w)
}
