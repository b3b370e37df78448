// Command godwit keeps applications placed across many Kubernetes clusters, driven from a Git
// repository. See the README for a first fleet, and "godwit help" for the commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/godwit-gitops/godwit/reconciler/report"
)

// version is set when a release is built.
var version = "v0.1.0-dev"

// Exit statuses are part of the interface.
const (
	exitDone     = 0
	exitError    = 1
	exitChanges  = 2 // with --detailed-exitcode: there are changes
	exitFindings = 3 // findings of severity error in the input
	exitMembers  = 4 // some members failed
)

func main() { os.Exit(run()) }

// run is main without the exit, so that tests can run the program as their own process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // who asks again does not want to wait, and a crash loses nothing
	stderr := os.Stderr
	log.SetOutput(sieve{stderr})
	if nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		// Kustomize writes lines there that nothing turns off, in between ours, which may be JSON.
		os.Stderr = nowhere
		defer func() { os.Stderr = stderr }()
	}
	root := newRoot(stop)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var status *statusError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &status):
		if status.message != "" {
			say(stderr, status.message)
		}
		return status.status
	}
	say(stderr, err.Error())
	return exitError
}

// sieve is the output of the standard logger without what kustomize says there: it quotes the values that it works on,
// those of Secrets, too, and findings tell what is wrong with a build.
type sieve struct{ io.Writer }

func (s sieve) Write(line []byte) (int, error) {
	callers := make([]uintptr, 64) // kustomize is near: it calls the logger
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "sigs.k8s.io/kustomize/") {
			return len(line), nil
		}
		if !more {
			return s.Writer.Write(line)
		}
	}
}

// say prints a message on one line. It may quote what others wrote, which steers no terminal and forges no line.
func say(w io.Writer, message string) {
	fmt.Fprintln(w, "godwit:", report.Flat(message))
}

// statusError ends the program with a status; an empty message means that all was said already.
type statusError struct {
	status  int
	message string
}

func (e *statusError) Error() string { return e.message }
