package remote

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

// maxAdvertisement bounds what a server may list: about 800,000 refs.
const maxAdvertisement = 64 << 20

// stream carries the pack protocol, version 0: the server greets with its refs, the client asks
// once, the server answers.
type stream interface {
	greeting() io.Reader
	// ask sends head and, if it is not nil, pack, and returns the answer.
	ask(head []byte, pack io.Reader) (io.Reader, error)
	// explain adds to err what the server said beside the protocol.
	explain(err error) error
	Close()
}

var errNoAnswer = errors.New("the server closed the connection without an answer")

// wire is a session over a stream.
type wire struct {
	stream
	caps  *capability.List
	found *Advertisement
}

// greet reads the server's refs.
func greet(s stream) (session, error) {
	refs := packp.NewAdvRefs()
	err := refs.Decode(bufio.NewReader(io.LimitReader(s.greeting(), maxAdvertisement)))
	switch {
	case errors.Is(err, packp.ErrEmptyAdvRefs):
	case errors.Is(err, packp.ErrEmptyInput):
		return nil, s.explain(errNoAnswer)
	case err != nil:
		return nil, s.explain(serverError(err))
	}
	if format := refs.Capabilities.Get(capability.ObjectFormat); len(format) > 0 && format[0] != "sha1" {
		return nil, fmt.Errorf("the repository's object format is %s; only sha1 is supported", printable(format[0]))
	}
	found := &Advertisement{Refs: refs.References}
	if refs.Head != nil {
		found.Refs[headRef] = *refs.Head
	}
	for _, link := range refs.Capabilities.Get(capability.SymRef) {
		if target, ok := strings.CutPrefix(link, "HEAD:refs/heads/"); ok {
			found.DefaultBranch = target
		}
	}
	return &wire{s, refs.Capabilities, found}, nil
}

func (w *wire) advertised() *Advertisement { return w.found }

func (w *wire) fetch(wants []plumbing.Hash, into *clone) (io.Reader, error) {
	var head bytes.Buffer
	lines := pktline.NewEncoder(&head)
	caps := w.choose(capability.MultiACKDetailed, capability.Sideband64k, capability.OFSDelta, capability.NoProgress)
	for _, want := range wants {
		lines.Encodef("want %s%s\n", want, caps)
		caps = ""
	}
	lines.Flush()
	for _, have := range into.haves() {
		lines.Encodef("have %s\n", have)
	}
	lines.EncodeString("done\n")

	answer, err := w.ask(head.Bytes(), nil)
	if err != nil {
		return nil, err
	}
	answer = bufio.NewReader(answer)
	// Several "ACK <hash> <state>" may come first; the last line is "NAK" or "ACK <hash>".
	acks := pktline.NewScanner(answer)
	for {
		if !acks.Scan() {
			return nil, w.explain(serverError(orEOF(acks.Err())))
		}
		line := string(bytes.TrimSpace(acks.Bytes()))
		if line == "NAK" || strings.HasPrefix(line, "ACK ") && strings.Count(line, " ") == 1 {
			break
		}
		if !strings.HasPrefix(line, "ACK ") {
			return nil, w.explain(fmt.Errorf("the server answered %q", printable(line)))
		}
	}
	if w.caps.Supports(capability.Sideband64k) {
		return &demux{lines: pktline.NewScanner(answer)}, nil
	}
	return answer, nil
}

func (w *wire) push(ref string, old, new plumbing.Hash, pack io.Reader) error {
	if !w.caps.Supports(capability.ReportStatus) {
		return errors.New("the server does not report what becomes of a push")
	}
	var head bytes.Buffer
	lines := pktline.NewEncoder(&head)
	caps := w.choose(capability.ReportStatus, capability.Sideband64k, capability.Quiet, capability.DeleteRefs)
	lines.Encodef("%s %s %s\x00%s", old, new, ref, caps)
	lines.Flush()
	switch {
	case new.IsZero():
		pack = nil
	case pack == nil:
		pack = bytes.NewReader(emptyPack())
	}
	answer, err := w.ask(head.Bytes(), pack)
	if err != nil {
		return err
	}
	answer = bufio.NewReader(answer)
	said := &demux{lines: pktline.NewScanner(answer)}
	if w.caps.Supports(capability.Sideband64k) {
		answer = said
	}
	report := packp.NewReportStatus()
	if err := report.Decode(answer); err != nil {
		return w.explain(serverError(orEOF(err)))
	}
	if report.UnpackStatus != "ok" {
		return said.refusal("unpack: " + report.UnpackStatus)
	}
	for _, status := range report.CommandStatuses {
		if status.ReferenceName.String() != ref {
			continue
		}
		if status.Status != "ok" {
			return said.refusal(status.Status)
		}
		return nil
	}
	return fmt.Errorf("the server did not report on %s", ref)
}

// choose lists those of our capabilities that the server has, with a space before each.
func (w *wire) choose(ours ...capability.Capability) string {
	var b strings.Builder
	for _, c := range ours {
		if w.caps.Supports(c) {
			b.WriteString(" " + string(c))
		}
	}
	if w.caps.Supports(capability.Agent) {
		b.WriteString(" agent=godwit")
	}
	return b.String()
}

// demux reads the first band of a side-band stream. What the server says on the second it keeps.
type demux struct {
	lines *pktline.Scanner
	rest  []byte
	said  []byte
}

func (d *demux) Read(b []byte) (int, error) {
	for len(d.rest) == 0 {
		if !d.lines.Scan() {
			return 0, orEOF(d.lines.Err())
		}
		line := d.lines.Bytes()
		if len(line) == 0 {
			return 0, io.EOF
		}
		switch line[0] {
		case 1:
			d.rest = line[1:]
		case 2:
			if len(d.said) < 4<<10 {
				d.said = append(d.said, line[1:]...)
			}
		default:
			return 0, fmt.Errorf("the server said: %s", printable(string(line[1:])))
		}
	}
	n := copy(b, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// refusal is ErrRefused with the server's reasons, those of its hooks among them.
func (d *demux) refusal(reason string) error {
	if said := printable(string(d.said)); said != "" {
		return fmt.Errorf("%w: %s (%s)", ErrRefused, printable(reason), said)
	}
	return fmt.Errorf("%w: %s", ErrRefused, printable(reason))
}

// serverError makes an error that quotes the server fit for people.
func serverError(err error) error {
	var line *pktline.ErrorLine
	if errors.As(err, &line) {
		return said(line.Text)
	}
	return err
}

// said is an error with what a server wrote for people. The protocol has no other way to say that
// there is no such repository.
func said(text string) error {
	text = printable(text)
	for _, words := range []string{"not found", "does not exist", "not appear to be a git repo", "could not be found", "no such repo"} {
		if strings.Contains(strings.ToLower(text), words) {
			return fmt.Errorf("%w: the server said: %s", ErrNotFound, text)
		}
	}
	return fmt.Errorf("the server said: %s", text)
}

// orEOF names the end of a stream that should have gone on.
func orEOF(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
