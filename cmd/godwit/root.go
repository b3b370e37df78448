package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

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
error in the input; 4 some members failed.

Colours are for terminals. --no-color, or NO_COLOR with any value, turns them off, as do TERM=dumb and CLICOLOR=0;
FORCE_COLOR=1 or CLICOLOR_FORCE=1 turns them on elsewhere, unless NO_COLOR is set. Text is fitted to the width of the
terminal, or to COLUMNS; what is not written to a terminal has each row of a table on one line.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	commonFlags(root.PersistentFlags())
	root.AddCommand(newRun(), newAgent(), newPlan(), newExplain(), newRender(), newValidate(), newHistory(), newReplay(), newApprove(), newGet(), newInterpret(), newClusters(), newRBAC(), newSimulate(), newDemo(stop), newVersion())
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, noShell
		}
	}
	return root
}

// noShell says which shells there are; without it another one is helped, and all is well.
func noShell(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var shells []string
	for _, shell := range cmd.Commands() {
		shells = append(shells, shell.Name())
	}
	return fmt.Errorf("completion %s: is not one of %s", args[0], strings.Join(shells, ", "))
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
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return withoutUser(a) }}
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

func writeJSON(w io.Writer, v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(visible(text.Bytes()))
	return err
}

func writeYAML(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if text, err = yaml.JSONToYAML(visible(text)); err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// visible is the same JSON with escapes for what is no sign to see and steers terminals: control characters above those
// that JSON forbids, which YAML does, marks that turn the direction of text, and the like.
func visible(text []byte) []byte {
	hidden := func(r rune) bool { return r >= 0x7f && r <= 0xffff && r != utf8.RuneError && !unicode.IsPrint(r) }
	if bytes.IndexFunc(text, hidden) < 0 {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for _, r := range string(text) {
		if hidden(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
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

// userInURL is what a URL has before its host.
var userInURL = regexp.MustCompile(`(\w://)[^/?#\s"]*@`)

// withoutUser takes user and password from the URLs in a value of the log, wherever they come from: what others put
// into their errors is not in our hands.
func withoutUser(a slog.Attr) slog.Attr {
	text := ""
	switch a.Value.Kind() {
	case slog.KindString:
		text = a.Value.String()
	case slog.KindAny:
		err, ok := a.Value.Any().(error)
		if !ok {
			return a
		}
		text = err.Error()
	}
	if strings.Contains(text, "@") {
		a.Value = slog.StringValue(userInURL.ReplaceAllString(text, "$1"))
	}
	return a
}
