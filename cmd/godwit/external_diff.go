package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwit-gitops/godwit/reconciler/report"
)

// envExternalDiff is kubectl's.
const envExternalDiff = "KUBECTL_EXTERNAL_DIFF"

// option is what kubectl passes on: an argument with anything else is left out.
var option = regexp.MustCompile(`^[a-zA-Z0-9-=]+$`)

// diffCommand reads the variable as kubectl does: no shell, blanks part the program and its options, and these come
// behind the folders.
func diffCommand(said, live, merged string) (program string, args []string) {
	words := strings.Split(said, " ")
	args = []string{live, merged}
	for _, word := range words[1:] {
		if option.MatchString(word) {
			args = append(args, word)
		}
	}
	return words[0], args
}

// externalDiff has a program show the diffs; what it prints goes to w as it comes. Its files are for this user alone and
// go when it ends, however it ends. Status 1 means that there are differences.
func externalDiff(cmd *cobra.Command, w io.Writer, said string, sides []report.Sides) (err error) {
	var dirs [2]string
	for i, name := range []string{"LIVE-", "MERGED-"} {
		dir, err := os.MkdirTemp("", name)
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		dirs[i] = dir
	}
	for _, s := range sides {
		for i, text := range []string{s.Before, s.After} {
			if err := os.WriteFile(filepath.Join(dirs[i], s.Name), []byte(text), 0o600); err != nil {
				return err
			}
		}
	}
	program, args := diffCommand(said, dirs[0], dirs[1])
	c := exec.CommandContext(cmd.Context(), program, args...)
	c.Stdin, c.Stdout, c.Stderr = cmd.InOrStdin(), w, cmd.ErrOrStderr()
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = time.Second
	var exit *exec.ExitError
	if err = c.Run(); errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("%s: run %q: %w", envExternalDiff, program, err)
	}
	return nil
}
