package hook

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// minSecret is the shortest secret, in bytes, that is not guessed.
	minSecret = 16
	// maxSecrets is how many lines a file may have, each of which costs a sum over every body.
	maxSecrets = 4
	// rereadAfter is how old what was read may be.
	rereadAfter = 5 * time.Second
)

// SecretFile is a file with a secret on each line, any of which counts: the old and the new one while they change. It
// is read again while it is used, and what was read last stays in force while it cannot be read. It may be used by
// many at once.
type SecretFile struct {
	path  string
	clock clock.PassiveClock

	mu    sync.Mutex
	read  time.Time
	lines [][]byte
}

// OpenSecretFile reads the file. A nil clock means the real one.
func OpenSecretFile(path string, c clock.PassiveClock) (*SecretFile, error) {
	if c == nil {
		c = clock.RealClock{}
	}
	lines, err := readSecrets(path)
	if err != nil {
		return nil, err
	}
	return &SecretFile{path: path, clock: c, read: c.Now(), lines: lines}, nil
}

// Secrets are those in force, one at least.
func (f *SecretFile) Secrets() [][]byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.clock.Now(); now.Sub(f.read) >= rereadAfter {
		f.read = now
		if lines, err := readSecrets(f.path); err == nil {
			f.lines = lines
		}
	}
	return f.lines
}

func readSecrets(path string) ([][]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a secret: %w", err)
	}
	var lines [][]byte
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	switch {
	case len(lines) == 0 || len(lines) > maxSecrets:
		return nil, fmt.Errorf("%s: has %d secrets; one a line, and %d at most", path, len(lines), maxSecrets)
	}
	for i, line := range lines {
		if len(line) < minSecret {
			return nil, fmt.Errorf("%s: secret %d has fewer than %d characters, which can be guessed", path, i+1, minSecret)
		}
	}
	return lines, nil
}
