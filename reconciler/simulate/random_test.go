package simulate

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

var (
	cases = flag.Int("simulate.cases", 40, "how many random scenarios are played")
	seed  = flag.Uint64("simulate.seed", 1, "the first seed")
)

func dice(seed uint64) Dice { return rand.New(rand.NewPCG(seed, 0)).IntN }

func (c *Case) snapshots() map[string]gitstate.Snapshot {
	sources := map[string]gitstate.Snapshot{}
	for name, files := range c.Sources {
		hash, _ := files.Hash(".")
		sources[name] = gitstate.Snapshot{Revision: gitstate.Revision(hash), Branch: "main", FS: files}
	}
	return sources
}

func (c *Case) play(s *Scenario, next func(decide.Input) (*decide.Decision, error)) (*Result, error) {
	return Run(s, Options{Sources: c.snapshots(), Check: true, decide: next,
		Decide: decide.Options{SecretKey: []byte("key"), StatusInterval: time.Minute, MaxDeletePercent: 100}})
}

// text is a case as people can play it again.
func (c *Case) text(s *Scenario) string {
	var b strings.Builder
	b.Write(s.Text())
	for name, files := range c.Sources {
		for path, data := range files {
			fmt.Fprintf(&b, "== %s/%s ==\n%s", name, path, data)
		}
	}
	return b.String()
}

func TestRandomFaultsBreakNoInvariant(t *testing.T) {
	for i := range *cases {
		seed := *seed + uint64(i)
		c := Random(dice(seed))
		if _, err := c.play(c.Scenario, nil); err != nil {
			short := Shrink(c.Scenario, func(s *Scenario) bool {
				_, err := c.play(s, nil)
				var v *Violation
				return errors.As(err, &v)
			})
			_, again := c.play(short, nil)
			t.Fatalf("seed %d: %v; %v\n%s", seed, err, again, c.text(short))
		}
	}
}
