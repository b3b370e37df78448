//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

func init() { commands["terminal"] = terminal }

// terminal runs a program with a real terminal for its standard output, and writes what came there to the file tty.
func terminal(_ *world, ts *testscript.TestScript, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: terminal COLUMNS PROGRAM ARGS...")
	}
	width, err := strconv.ParseUint(args[0], 10, 16)
	if err != nil {
		return err
	}
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer screen.Close()
	fd := int(screen.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return err
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: uint16(width)}); err != nil {
		return err
	}
	name := fmt.Sprintf("/dev/pts/%d", n)
	side, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	shown := make(chan []byte)
	go func() {
		text, _ := io.ReadAll(screen) // ends with EIO when nobody has the other side any more
		shown <- text
	}()
	err = ts.Exec("sh", append([]string{"-c", `exec "$@" >"$0"`, name}, args[1:]...)...)
	side.Close()
	text := bytes.ReplaceAll(<-shown, []byte("\r\n"), []byte("\n"))
	return errors.Join(err, os.WriteFile(ts.MkAbs("tty"), text, 0o644))
}
