package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/godwit-gitops/godwit/reconciler/report"
)

const (
	// quiet is how long nothing is said of work.
	quiet = 2 * time.Second
	// everyMoment is how often the line is looked at.
	everyMoment = 200 * time.Millisecond
	// erased takes a line off the terminal.
	erased = "\r\x1b[K"
)

// doing is what is done, and how far; count is empty where nobody knows.
type doing struct{ what, count string }

// meter is the line that says what takes so long. It does nothing itself: each method returns what the terminal gets.
type meter struct {
	width int
	began time.Time
	// doing is what is done, the innermost last.
	doing []doing
	shown string
}

// begin says that something is done from now on, within what is done already.
func (m *meter) begin(now time.Time, what string) {
	if len(m.doing) == 0 {
		m.began = now
	}
	m.doing = append(m.doing, doing{what: what})
}

// end says that the innermost is done. When nothing is left the line goes.
func (m *meter) end() string {
	m.doing = m.doing[:len(m.doing)-1]
	if len(m.doing) > 0 {
		return ""
	}
	return m.erase()
}

// tick brings the line up to date.
func (m *meter) tick(now time.Time) string {
	if len(m.doing) == 0 || now.Sub(m.began) < quiet {
		return ""
	}
	inner := m.doing[len(m.doing)-1]
	line := fmt.Sprintf("%s%s ... %s", inner.what, inner.count, now.Sub(m.began).Truncate(time.Second))
	// A line that fills the terminal would go on below, and could not be erased.
	if line = report.Cut(line, m.width-1); line == m.shown {
		return ""
	}
	m.shown = line
	return "\r" + line + "\x1b[K"
}

// count says how far the innermost is; total is 0 where nobody knows.
func (m *meter) count(n, total int) {
	text := fmt.Sprintf(" %d", n)
	if total > 0 {
		text += fmt.Sprintf(" of %d", total)
	}
	m.doing[len(m.doing)-1].count = text
}

func (m *meter) erase() string {
	if m.shown == "" {
		return ""
	}
	m.shown = ""
	return erased
}

// progress shows a meter on a terminal. A nil one shows nothing.
type progress struct {
	mu    sync.Mutex
	w     io.Writer
	meter meter
	stop  chan struct{} // while something is done
	done  chan struct{}
}

// newProgress is nil where nobody looks.
func newProgress(cmd *cobra.Command) *progress {
	f, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width == 0 {
		return nil
	}
	return &progress{w: f, meter: meter{width: width}}
}

// doing says what is done until the function that it returns is called.
func (p *progress) doing(what string) (end func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.meter.doing) == 0 {
		p.stop, p.done = make(chan struct{}), make(chan struct{})
		go p.watch(p.stop, p.done)
	}
	p.meter.begin(time.Now(), what)
	return p.end
}

func (p *progress) end() {
	p.mu.Lock()
	io.WriteString(p.w, p.meter.end())
	over := len(p.meter.doing) == 0
	p.mu.Unlock()
	if over {
		close(p.stop)
		<-p.done
	}
}

// count says how far the innermost work is.
func (p *progress) count(n, total int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.meter.count(n, total)
}

func (p *progress) watch(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	ticker := time.NewTicker(everyMoment)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			p.mu.Lock()
			select {
			case <-stop:
			default:
				io.WriteString(p.w, p.meter.tick(time.Now()))
			}
			p.mu.Unlock()
		}
	}
}

// Write writes what is said meanwhile, whole lines, above the line.
func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.w.Write(slices.Concat([]byte(p.meter.erase()), text))
	return len(text), err
}
