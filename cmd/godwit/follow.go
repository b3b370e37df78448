package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	githook "github.com/godwit-gitops/godwit/gitstate/hook"
	"github.com/godwit-gitops/godwit/gitstate/watch"
)

// follower follows the configuration of a process: its file, and the files that are named there. One that changed is read
// and tried out as a whole while all goes on. What cannot be used is said once, and the one in force stays.
type follower struct {
	cmd *cobra.Command
	log *slog.Logger
	// try finds what would keep a configuration from coming in force, and opens what it listens on.
	try func(next *candidate) error
	// reloaded is told whether one came in force.
	reloaded func(ok bool)

	inForce
	refused prints // what could not be used, so that it is said once
	hints   <-chan struct{}
	unwatch func()
	hangup  chan os.Signal
}

// inForce is a configuration with what was made of it for the process.
type inForce struct {
	config    *Config
	files     prints
	listeners []listener
}

// candidate is a configuration that can come in force.
type candidate struct {
	inForce
	hooks   *githook.Receiver
	changed []string // settings
}

// follow begins to, with the first configuration, and ends with stop.
func (f *follower) follow(ctx context.Context, first inForce) (stop func()) {
	f.adopt(ctx, first)
	f.hangup = make(chan os.Signal, 1)
	signal.Notify(f.hangup, syscall.SIGHUP)
	return func() {
		signal.Stop(f.hangup)
		f.unwatch()
		closeListeners(f.listeners, nil)
	}
}

// await returns the next configuration, or what came of that which ended before there was one.
func (f *follower) await(ctx context.Context, ended <-chan error) (*candidate, error) {
	for {
		asked := false
		select {
		case err := <-ended:
			return nil, err
		case _, open := <-f.hints:
			if !open { // ctx ended
				return nil, <-ended
			}
		case <-f.hangup:
			asked = true
		}
		if next := f.look(ctx, asked); next != nil {
			return next, nil
		}
	}
}

// look reads the configuration. It returns nil unless another one can come in force. What could not before is tried
// again only if somebody asks.
func (f *follower) look(ctx context.Context, asked bool) *candidate {
	c, files, err := f.settled(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case maps.Equal(files, f.files):
		f.unchanged(asked)
		return nil
	case maps.Equal(files, f.refused) && !asked:
		return nil
	}
	if err == nil {
		next := &candidate{inForce: inForce{config: c, files: files}, changed: changes(&f.inForce, c, files)}
		if len(next.changed) == 0 {
			f.config, f.files = c, files // such as a comment
			f.unchanged(asked)
			return nil
		}
		if err = f.tryOut(next); err == nil {
			return next
		}
	}
	f.refuse(files, err)
	return nil
}

// unchanged says that all is as it was, where somebody wants to know.
func (f *follower) unchanged(asked bool) {
	if f.refused != nil {
		f.refused = nil
		f.reloaded(true)
		asked = true
	}
	if asked {
		f.log.Info("the configuration says what is in force already")
	}
}

func (f *follower) refuse(files prints, err error) {
	f.refused = files
	f.reloaded(false)
	file, _ := configFile(f.cmd)
	f.log.Error("the configuration cannot come in force, the last one stays", "file", file, "error", err)
}

const (
	// stillFor is how long files have to stay as they are before they are believed: somebody may be writing.
	stillFor = 100 * time.Millisecond
	// restless is how often they are read that never do.
	restless = 20
)

// settled reads the configuration once nobody writes it any more.
func (f *follower) settled(ctx context.Context) (c *Config, files prints, err error) {
	c, files, err = f.read()
	for range restless {
		if maps.Equal(files, f.files) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(stillFor):
		}
		was := files
		if c, files, err = f.read(); maps.Equal(files, was) {
			break
		}
	}
	return c, files, err
}

// read reads the configuration as it is now. What was read is told even if it is no use.
func (f *follower) read() (*Config, prints, error) {
	file, named := configFile(f.cmd)
	text, err := readConfig(file, named)
	blank := len(bytes.TrimSpace(text)) == 0
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named && f.config.text == nil:
		err = nil // there never was one
	case err != nil:
		err = fmt.Errorf("read %s: %w", file, err)
	case blank && len(bytes.TrimSpace(f.config.text)) > 0:
		err = fmt.Errorf("%s: is empty, which would put every setting back to its default; if that is meant, write one of them there", file)
	}
	var c *Config
	if err == nil {
		c, err = decodeConfig(f.cmd, text)
	}
	if err != nil {
		return nil, printsOf(text, f.config.named()), err
	}
	return c, c.prints(), nil
}

// tryOut finds out whether another configuration can come in force.
func (f *follower) tryOut(next *candidate) error {
	if fixed := f.config.fixed(next.config); len(fixed) > 0 {
		return fmt.Errorf("%s: takes a restart to change; until then nothing else that changed is in force either", strings.Join(fixed, ", "))
	}
	return f.try(next)
}

// adopt puts a configuration in force for the process, and watches its files.
func (f *follower) adopt(ctx context.Context, now inForce) {
	closeListeners(f.listeners, now.listeners)
	f.inForce, f.refused = now, nil
	if f.unwatch != nil {
		f.unwatch()
	}
	file, _ := configFile(f.cmd)
	paths := []string{file}
	for _, n := range now.config.named() {
		if paths = append(paths, n.path); isFolder(n.path) {
			paths = append(paths, filepath.Join(n.path, "keys")) // watches what is in it
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	hints := watch.Files(ctx, paths...)
	f.hints, f.unwatch = hints, func() { cancel(); drain(hints) }
}

// prints tell by setting what the files were that a configuration was made from; the file itself has none.
type prints map[string][sha256.Size]byte

func (c *Config) prints() prints { return printsOf(c.text, c.named()) }

// printsOf gives files that cannot be read the zero value, as it does where there is none.
func printsOf(text []byte, files []namedFile) prints {
	all := prints{}
	if text != nil {
		all[""] = sha256.Sum256(text)
	}
	for _, f := range files {
		all[f.setting] = printOf(f.path)
	}
	return all
}

// printOf is that of a file, or of the keys in a folder.
func printOf(path string) [sha256.Size]byte {
	if text, err := os.ReadFile(path); err == nil {
		return sha256.Sum256(text)
	}
	files, err := keyFiles(path)
	if err != nil {
		return [sha256.Size]byte{}
	}
	all := sha256.New()
	for _, file := range files {
		text, _ := os.ReadFile(file) // what cannot be read is refused when it is used
		fmt.Fprintf(all, "%q %x\n", filepath.Base(file), sha256.Sum256(text))
	}
	return [sha256.Size]byte(all.Sum(nil))
}

// changes are the settings that are others, or name files that are.
func changes(now *inForce, c *Config, files prints) []string {
	all := now.config.changed(c)
	for setting, print := range files {
		if was, ok := now.files[setting]; ok && setting != "" && was != print {
			all = append(all, setting)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
