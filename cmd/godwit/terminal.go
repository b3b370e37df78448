package main

import (
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/godwit-gitops/godwit/reconciler/report"
)

// style is for whoever reads w.
func style(cmd *cobra.Command, w io.Writer) report.Style {
	off, _ := cmd.Flags().GetBool("no-color")
	f, terminal := w.(*os.File)
	terminal = terminal && term.IsTerminal(int(f.Fd()))
	s := report.Style{Colour: coloured(off, terminal, os.Getenv)}
	if terminal {
		s.Width = columns(os.Getenv("COLUMNS"), func() (int, error) {
			width, _, err := term.GetSize(int(f.Fd()))
			return width, err
		})
	}
	return s
}

// coloured follows no-color.org, which goes first, and then force-color.org and bixense.com/clicolors.
func coloured(off, terminal bool, env func(string) string) bool {
	set := func(name string) bool { v := env(name); return v != "" && v != "0" && v != "false" }
	switch {
	case off, env("NO_COLOR") != "": // any value, 0 too
		return false
	case set("FORCE_COLOR"), set("CLICOLOR_FORCE"):
		return true
	}
	return terminal && env("TERM") != "dumb" && env("CLICOLOR") != "0"
}

// columns is how wide lines are: what the user says, or else the terminal. 0 is as wide as they are.
func columns(said string, size func() (int, error)) int {
	if n, err := strconv.Atoi(said); err == nil && n > 0 {
		return n
	}
	n, err := size()
	if err != nil {
		return 0
	}
	return n
}
