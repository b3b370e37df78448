package watch

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// often is how often single files are looked at, which takes no time.
const often = 10 * time.Second

// Files signals when one of the files may have changed, come or gone, and once at the beginning. Their folders are
// watched, since a file that is replaced is another one, and those of the files that links lead to; folders that do
// not exist are waited for.
func Files(ctx context.Context, paths ...string) <-chan struct{} {
	ticks := Ticks(ctx, often)
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		once := make(chan struct{}, 1)
		signal(once)
		close(once)
		return Merge(ctx, once, ticks)
	}
	return settle(ctx, files(ctx, watcher, ticks, paths))
}

// files signals each event and each tick. What is to be watched may be other folders after it.
func files(ctx context.Context, watcher *fsnotify.Watcher, ticks <-chan struct{}, paths []string) <-chan struct{} {
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		defer watcher.Close()
		for {
			follow(watcher, paths)
			signal(out) // after it: what changes from here on is an event
			select {
			case <-ctx.Done():
				return
			case <-ticks:
			case _, open := <-watcher.Events:
				if !open {
					return
				}
			case _, open := <-watcher.Errors: // events were lost
				if !open {
					return
				}
			}
		}
	}()
	return out
}

// follow watches the folders that say where the files are. What cannot be watched is left to the next tick.
func follow(watcher *fsnotify.Watcher, paths []string) {
	// They may have changed before they were watched, unless they are still those afterwards.
	for watched := map[string]bool(nil); ; {
		wanted := map[string]bool{}
		for _, path := range paths {
			for _, dir := range places(path) {
				wanted[dir] = true
			}
		}
		if maps.Equal(watched, wanted) {
			return
		}
		for _, dir := range watcher.WatchList() {
			if !wanted[dir] {
				watcher.Remove(dir)
			}
		}
		for dir := range wanted {
			watcher.Add(dir)
		}
		watched = wanted
	}
}

// maxLinks bounds how many links are followed, as the system does.
const maxLinks = 40

// places are the folders whose entries decide what the path is: its own, and those that links on the way lead to. Of
// one that does not exist it is the closest above that does.
func places(path string) []string {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	var all []string
	for range maxLinks {
		link, rest := firstLink(path)
		if link == "" {
			break
		}
		all = append(all, filepath.Dir(link))
		target, err := os.Readlink(link)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		path = filepath.Join(target, rest)
	}
	dir := filepath.Dir(path)
	for !isDir(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return append(all, dir)
}

// firstLink is the first part of the path that is a link, and what comes after it.
func firstLink(path string) (link, rest string) {
	for at := path; at != filepath.Dir(at); at = filepath.Dir(at) {
		if info, err := os.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			link = at
		}
	}
	if link == "" {
		return "", ""
	}
	rest, _ = filepath.Rel(link, path)
	return link, rest
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
