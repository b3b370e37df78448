package watch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fsnotify/fsnotify"
)

// sandbox is a folder to change.
type sandbox struct {
	*testing.T
	dir string
}

func (s sandbox) at(name string) string { return filepath.Join(s.dir, name) }

func (s sandbox) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s sandbox) write(name, text string) {
	s.Helper()
	s.must(os.MkdirAll(filepath.Dir(s.at(name)), 0o755))
	s.must(os.WriteFile(s.at(name), []byte(text), 0o644))
}

// replace writes another file beside it and moves it there.
func (s sandbox) replace(name, text string) {
	s.Helper()
	s.write(name+".new", text)
	s.must(os.Rename(s.at(name+".new"), s.at(name)))
}

// point makes or replaces a link at once.
func (s sandbox) point(name, target string) {
	s.Helper()
	s.must(os.Symlink(target, s.at(name+".new")))
	s.must(os.Rename(s.at(name+".new"), s.at(name)))
}

// mount is what kubelet makes of a ConfigMap: it writes a folder, swaps ..data, and removes the old folder.
func (s sandbox) mount(dir, version, text string) {
	s.Helper()
	was, _ := os.Readlink(s.at(dir + "/..data"))
	s.write(filepath.Join(dir, version, "godwit.yaml"), text)
	s.point(dir+"/..data", version)
	if was != "" && was != version {
		s.must(os.RemoveAll(s.at(filepath.Join(dir, was))))
	}
	if _, err := os.Lstat(s.at(dir + "/godwit.yaml")); err != nil {
		s.must(os.Symlink("..data/godwit.yaml", s.at(dir+"/godwit.yaml")))
	}
}

// watching follows one file by events alone, reads it when told to, and waits until it has a text.
func (s sandbox) watching(name string) (until func(want string)) {
	ctx, cancel := context.WithCancel(s.Context())
	watcher, err := fsnotify.NewWatcher()
	s.must(err)
	signals := settle(ctx, files(ctx, watcher, nil, []string{s.at(name)}))
	s.Cleanup(func() {
		cancel()
		for range signals {
		}
	})
	return func(want string) {
		s.Helper()
		for range signals { // or the test's own time limit
			text, err := os.ReadFile(s.at(name))
			if string(text) == want && (err == nil || want == "") {
				return
			}
		}
		s.Fatalf("the channel ended before %s was %q", name, want)
	}
}

func TestFilesSignalEveryWayToChangeOne(t *testing.T) {
	for name, steps := range map[string][]func(s sandbox) (want string){
		"in place": {
			func(s sandbox) string { s.write("mnt/godwit.yaml", "one"); return "one" },
			func(s sandbox) string { s.write("mnt/godwit.yaml", "two"); return "two" },
			func(s sandbox) string { s.write("mnt/godwit.yaml", "three"); return "three" },
		},
		"by another file": {
			func(s sandbox) string { s.write("mnt/godwit.yaml", "one"); return "one" },
			func(s sandbox) string { s.replace("mnt/godwit.yaml", "two"); return "two" },
			func(s sandbox) string { s.replace("mnt/godwit.yaml", "three"); return "three" },
			func(s sandbox) string { s.write("mnt/godwit.yaml", "four"); return "four" },
		},
		"as kubelet does": {
			func(s sandbox) string { s.mount("mnt", "..v1", "one"); return "one" },
			func(s sandbox) string { s.mount("mnt", "..v2", "two"); return "two" },
			func(s sandbox) string { s.mount("mnt", "..v3", "three"); return "three" },
			func(s sandbox) string { s.write("mnt/..v3/godwit.yaml", "four"); return "four" },
		},
		"gone and back": {
			func(s sandbox) string { s.write("mnt/godwit.yaml", "one"); return "one" },
			func(s sandbox) string { s.must(os.Remove(s.at("mnt/godwit.yaml"))); return "" },
			func(s sandbox) string { s.write("mnt/godwit.yaml", "two"); return "two" },
			func(s sandbox) string { s.must(os.RemoveAll(s.at("mnt"))); return "" },
			func(s sandbox) string { s.write("mnt/godwit.yaml", "three"); return "three" },
			func(s sandbox) string { s.write("mnt/godwit.yaml", "four"); return "four" },
			func(s sandbox) string { s.must(os.Rename(s.at("mnt"), s.at("away"))); return "" },
			func(s sandbox) string { s.mount("mnt", "..v1", "five"); return "five" },
			func(s sandbox) string { s.mount("mnt", "..v2", "six"); return "six" },
		},
		"behind a link elsewhere": {
			func(s sandbox) string {
				s.write("real/a/godwit.yaml", "one")
				s.must(os.Mkdir(s.at("mnt"), 0o755))
				s.must(os.Symlink("../current/godwit.yaml", s.at("mnt/godwit.yaml")))
				s.must(os.Symlink("real/a", s.at("current")))
				return "one"
			},
			func(s sandbox) string { s.write("real/a/godwit.yaml", "two"); return "two" },
			func(s sandbox) string {
				s.write("real/b/godwit.yaml", "three")
				s.point("current", "real/b")
				return "three"
			},
			func(s sandbox) string { s.replace("real/b/godwit.yaml", "four"); return "four" },
			func(s sandbox) string {
				s.write("real/c", "five")
				s.point("mnt/godwit.yaml", "../real/c")
				return "five"
			},
			func(s sandbox) string { s.write("real/c", "six"); return "six" },
		},
	} {
		for _, there := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, there before: %t", name, there), func(t *testing.T) {
				t.Parallel()
				s := sandbox{t, t.TempDir()}
				if there {
					steps[0](s)
				}
				until := s.watching("mnt/godwit.yaml")
				for i, step := range steps {
					if i > 0 || !there {
						until(step(s))
					}
				}
			})
		}
	}
}

// However quickly changes come, and whatever they are, a signal comes after the last one.
func TestTheLastOfManyChangesIsSeen(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			s := sandbox{t, t.TempDir()}
			until := s.watching("mnt/godwit.yaml")
			for round := range 3 {
				want := ""
				for i := range 1 + random.IntN(30) {
					want = fmt.Sprintf("%d.%d", round, i)
					link, _ := os.Readlink(s.at("mnt/..data"))
					switch change := random.IntN(4); {
					case change == 0 && link == "":
						s.write("mnt/godwit.yaml", want)
					case change == 1 && link == "":
						s.replace("mnt/godwit.yaml", want)
					case change == 2:
						s.must(os.RemoveAll(s.at("mnt")))
						want = ""
					default:
						if link == "" {
							s.must(os.RemoveAll(s.at("mnt/godwit.yaml")))
						}
						s.mount("mnt", fmt.Sprintf("..%d.%d", round, i), want)
					}
				}
				until(want)
			}
		})
	}
}

// A tick is a signal where nothing is reported, and the folders to watch are found anew.
func TestFilesAreLookedAtFromTimeToTime(t *testing.T) {
	s := sandbox{t, t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	watcher, err := fsnotify.NewWatcher()
	s.must(err)
	ticks := make(chan struct{})
	signals := files(ctx, watcher, ticks, []string{s.at("godwit.yaml")})
	<-signals
	s.must(watcher.Remove(s.dir))
	ticks <- struct{}{}
	<-signals
	ticks <- struct{}{} // received, so that the first one was seen to
	if !slices.Contains(watcher.WatchList(), s.dir) {
		t.Errorf("watched are %q", watcher.WatchList())
	}
	cancel()
	for range signals {
	}
}
