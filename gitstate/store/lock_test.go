package store

import (
	"os/exec"
	"testing"
)

func TestALockIsReleasedEvenWhileChildrenAreStarted(t *testing.T) {
	dir := t.TempDir()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				exec.Command("true").Run()
			}
		}
	}()
	for range 2000 {
		release, first, err := Own(dir, "part")
		if err != nil || !first {
			t.Errorf("Own = %v, %v", first, err)
			break
		}
		release()
		release()
	}
	close(stop)
	<-stopped
}
