package remote

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// A pack that is not refused can be read back object by object, and a refused one leaves nothing.
func FuzzStorePack(f *testing.F) {
	f.Add(emptyPack())
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x31\x78\x9c\xab\x00\x00\x00\x79\x00\x79")) // a blob, no checksum
	source := f.TempDir()
	if err := Init(source); err != nil {
		f.Fatal(err)
	}
	from := openClone(source)
	var objects []plumbing.Hash
	for _, text := range []string{"", "x", strings.Repeat("line\n", 20)} {
		encoded := from.storage.NewEncodedObject()
		encoded.SetType(plumbing.BlobObject)
		w, err := encoded.Writer()
		if err != nil {
			f.Fatal(err)
		}
		io.WriteString(w, text)
		hash, err := from.storage.SetEncodedObject(encoded)
		if err != nil {
			f.Fatal(err)
		}
		objects = append(objects, hash)
	}
	var good bytes.Buffer
	if err := from.writePack(&good, objects); err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes())
	f.Fuzz(func(t *testing.T, pack []byte) {
		dir := t.TempDir()
		err := StorePack(dir, bytes.NewReader(pack), 1<<10)
		left, globErr := filepath.Glob(filepath.Join(dir, "objects/pack/*"))
		if globErr != nil {
			t.Fatal(globErr)
		}
		if err != nil {
			if len(left) > 0 {
				t.Errorf("refused (%v), and %v stays", err, left)
			}
			return
		}
		if len(left) == 0 {
			return // a pack of nothing
		}
		stored := OpenStorage(dir)
		defer stored.Close()
		hashes, err := stored.HashesWithPrefix(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, hash := range hashes {
			if _, err := stored.EncodedObject(plumbing.AnyObject, hash); err != nil {
				t.Errorf("object %s of an accepted pack: %v", hash, err)
			}
		}
	})
}

// An address is refused or printed without its password, and what is printed leads to the same place.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{
		"https://ada:hunter2@example.com:8443/a/b.git", "git@example.com:a/b", "ssh://ada@[::1]:22/~ada/x", "file:///srv/x", "/srv/x", "a::b", "http://%zz",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		a, err := parseAddress(raw)
		if err != nil {
			if strings.Contains(raw, "hunter2") && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error quotes the password: %v", err)
			}
			return
		}
		if a.scheme == "file" {
			return
		}
		if u, err := url.Parse(a.printed); err == nil && u.User != nil {
			t.Errorf("%q is printed as %q", raw, a.printed)
		}
		again, err := parseAddress(a.printed)
		if err != nil || again.host != a.host || again.path != a.path || again.port != a.port || again.scheme != a.scheme {
			t.Errorf("%q is printed as %q, which is %+v (%v) and not %+v", raw, a.printed, again, err, a)
		}
	})
}

// canned is a stream of a server that says what it says.
type canned struct{ hello, answer string }

func (c canned) greeting() io.Reader                      { return strings.NewReader(c.hello) }
func (c canned) ask([]byte, io.Reader) (io.Reader, error) { return strings.NewReader(c.answer), nil }
func (c canned) explain(err error) error                  { return err }
func (c canned) Close()                                   {}

// Whatever a server says ends in an error or a result, and no error has control characters in it.
func FuzzServer(f *testing.F) {
	const hash = "0123456789012345678901234567890123456789"
	f.Add("003f"+hash+" HEAD\x00 side-band-64k\n0000", "0008NAK\n0009\x01PACK0000")
	f.Add("0000", "0000")
	f.Add("", "000eERR hello\n")
	f.Add("00a1"+hash+" refs/heads/main\x00report-status side-band-64k multi_ack_detailed symref=HEAD:refs/heads/main object-format=sha1 agent=x\n0000", "0031ACK "+hash+" common\n0030ACK "+hash+"\n0008\x02no\n0009\x01PACK")
	f.Fuzz(func(t *testing.T, hello, answer string) {
		s, err := greet(canned{hello, answer})
		if err != nil {
			return
		}
		clone := openClone(t.TempDir())
		want := []plumbing.Hash{plumbing.NewHash(hash)}
		if pack, err := s.fetch(want, clone); err == nil {
			io.Copy(io.Discard, pack)
		}
		err = s.push("refs/heads/main", plumbing.ZeroHash, want[0], nil)
		if errors.Is(err, ErrRefused) && strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
			t.Errorf("control characters in %q", err)
		}
	})
}
