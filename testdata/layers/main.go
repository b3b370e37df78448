// Command layers checks the architecture: imports point down only, pure packages do no I/O, and each
// big dependency has its one door. "make layers" runs it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const module = "github.com/godwit-gitops/godwit"

// layers from the bottom up. A package may import packages of lower layers and, where its layer says
// so, of its own. The first pattern that fits a package is its layer.
var layers = []struct {
	name     string
	pure     bool
	siblings bool
	packages []string
}{
	{"api", true, true, []string{"api", "api/..."}},
	{"words", true, false, []string{"gitstate", "render"}},
	{"render", true, true, []string{"render/...", "gitstate/record"}},
	{"decide", true, true, []string{"reconciler/decide", "reconciler/failover", "reconciler/report", "reconciler/simulate", "reconciler/credential", "reconciler/notice", "reconciler/roster"}},
	{"io", false, true, []string{"gitstate/...", "reconciler/member", "reconciler/registry", "reconciler/pull", "reconciler/apply", "reconciler/observe", "reconciler/inspect", "reconciler/webhook", "reconciler/egress", "reconciler/lead", "reconciler/shard", "reconciler/membertest"}},
	{"reconciler", false, false, []string{"reconciler"}},
	{"operations", false, true, []string{"reconciler/metrics", "reconciler/serve", "reconciler/notify", "reconciler/events"}},
	{"examples", false, false, []string{"examples", "examples/install"}},
	{"cmd", false, false, []string{"cmd/...", "testdata/..."}},
}

// apart may not import each other, whatever their layers.
var apart = [][2]string{{"gitstate", "render"}, {"gitstate", "reconciler"}, {"render", "reconciler"}, {"render", "gitstate"}}

// doors are the only packages that may import a dependency.
var doors = map[string][]string{
	"github.com/spf13/viper":            {"cmd/godwit"},
	"github.com/go-git/go-git":          {"gitstate/remote", "gitstate/source", "gitstate/store", "gitstate/pack", "gitstate/gittest"},
	"github.com/fsnotify/fsnotify":      {"gitstate/watch"},
	"sigs.k8s.io/kustomize":             {"render/kustomize"},
	"github.com/yuin/gopher-lua":        {"render/interpret"},
	"k8s.io/client-go":                  {"reconciler/member", "reconciler/registry", "reconciler/apply", "reconciler/observe", "reconciler/inspect", "reconciler/lead", "reconciler/shard", "reconciler/membertest", "reconciler/metrics", "reconciler/events", "cmd/godwit"},
	"github.com/prometheus":             {"reconciler/metrics"},
	"golang.org/x/crypto":               {"gitstate/remote", "gitstate/signature", "gitstate/gittest"},
	"github.com/ProtonMail/go-crypto":   {"gitstate/signature", "render/sops"},
	"filippo.io/age":                    {"render/sops"},
	"sigs.k8s.io/structured-merge-diff": {"reconciler/apply", "reconciler/membertest"},
}

// harmless parts of them are pure, and for everybody.
var harmless = []string{"k8s.io/client-go/util/jsonpath"}

// impure packages of the standard library are not for pure packages.
var impure = []string{"os", "os/exec", "os/signal", "net", "net/http", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand", "syscall", "io/ioutil"}

// support is imported by tests alone and may read files.
var support = []string{"render/rendertest"}

func main() {
	problems, err := check()
	if err != nil {
		fmt.Fprintln(os.Stderr, "layers:", err)
		os.Exit(1)
	}
	for _, p := range problems {
		fmt.Println(p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func check() ([]string, error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var problems []string
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return problems, nil
		} else if err != nil {
			return nil, err
		}
		problems = append(problems, p.check()...)
	}
}

func (p pkg) check() []string {
	var problems []string
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
	at := layerOf(name)
	if at < 0 {
		bad("%s: is in no layer; give it a row in testdata/layers first", name)
		return problems
	}
	for _, i := range p.Imports {
		if layers[at].pure && !slices.Contains(support, name) && slices.Contains(impure, i) {
			bad("%s: is pure and imports %s", name, i)
		}
		for dependency, allowed := range doors {
			if strings.HasPrefix(i, dependency) && !slices.Contains(harmless, i) && !slices.Contains(allowed, name) {
				bad("%s: imports %s; its door is %s", name, i, strings.Join(allowed, ", "))
			}
		}
		below, ok := strings.CutPrefix(i, module+"/")
		if !ok {
			continue
		}
		switch to := layerOf(below); {
		case to > at:
			bad("%s: imports %s, which is above it", name, below)
		case to == at && !layers[at].siblings:
			bad("%s: imports %s of its own layer", name, below)
		}
		for _, pair := range apart {
			if within(name, pair[0]) && within(below, pair[1]) {
				bad("%s: imports %s; %s and %s meet in api alone", name, below, pair[0], pair[1])
			}
		}
	}
	return problems
}

func layerOf(name string) int {
	for i, l := range layers {
		for _, pattern := range l.packages {
			if prefix, deep := strings.CutSuffix(pattern, "/..."); name == pattern || deep && strings.HasPrefix(name, prefix+"/") {
				return i
			}
		}
	}
	return -1
}

func within(name, root string) bool { return name == root || strings.HasPrefix(name, root+"/") }
