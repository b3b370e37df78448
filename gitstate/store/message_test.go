package store

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestMessagesAreFormatted(t *testing.T) {
	for _, c := range []struct {
		name string
		m    Message
		want string
	}{
		{"subject alone", Message{Subject: "cluster(kube03): NotReady"}, "cluster(kube03): NotReady\n"},
		{"nothing", Message{}, "(no subject)\n"},
		{
			"all parts", Message{Subject: "s", Body: "one\n\ntwo\n", Trailers: []Trailer{{"A", "1"}, {"A", "2"}, {"B-c", ""}}},
			"s\n\none\n\ntwo\n\nA: 1\nA: 2\nB-c:\n",
		},
		{"line breaks in a subject", Message{Subject: " a\nb\r\n\tc "}, "a b c\n"},
		{"a long subject", Message{Subject: strings.Repeat("ä", 80)}, strings.Repeat("ä", 71) + "…\n"},
		{"72 are not too many", Message{Subject: strings.Repeat("ä", 72)}, strings.Repeat("ä", 72) + "\n"},
		{
			"a long line", Message{Subject: "s", Body: strings.Repeat("word ", 20)},
			"s\n\n" + strings.TrimSpace(strings.Repeat("word ", 14)) + "\n" + strings.TrimSpace(strings.Repeat("word ", 6)) + "\n",
		},
		{"a long word", Message{Subject: "s", Body: "a " + strings.Repeat("x", 90) + " b"}, "s\n\na\n" + strings.Repeat("x", 90) + "\nb\n"},
		{"short lines stay", Message{Subject: "s", Body: "- a\n- b\n\n\n\nc"}, "s\n\n- a\n- b\n\nc\n"},
		{"no divider", Message{Subject: "--- a", Body: "--- b\n---"}, "— a\n\n— b\n—\n"},
		{"folded value", Message{Subject: "s", Trailers: []Trailer{{"K", "a\n\nX: b"}}}, "s\n\nK: a X: b\n"},
		{"odd keys", Message{Subject: "s", Trailers: []Trailer{{"a b:c", "1"}, {"", "2"}}}, "s\n\na-b-c: 1\n"},
		{"control characters", Message{Subject: "a\x00b\x1b[31m", Body: "\xff"}, "a b [31m\n\n\uFFFD\n"},
	} {
		if diff := cmp.Diff(c.want, c.m.Format()); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

func TestPeoplesMessagesAreRead(t *testing.T) {
	for _, c := range []struct {
		name, text, subject, body string
		trailers                  []Trailer
	}{
		{"empty", "", "", "", nil},
		{"windows", "s\r\n\r\nb\r\n\r\nK: v\r\n", "s", "b", []Trailer{{"K", "v"}}},
		{"a subject of two lines", "a\nb\n\nc", "a b", "c", nil},
		{"a first paragraph is no trailer", "fix: it\n", "fix: it", "", nil},
		{"continued", "s\n\nK: a\n  b\nL : c\n", "s", "", []Trailer{{"K", "a b"}, {"L", "c"}}},
		{"text among trailers", "s\n\nK: a\nand so on\n", "s", "K: a\nand so on", nil},
		{"a sentence with a colon", "s\n\nwe say this: no\n", "s", "we say this: no", nil},
		{"paragraphs", "s\n\na\n\nb\n\nK: v\n", "s", "a\n\nb", []Trailer{{"K", "v"}}},
	} {
		subject, body, trailers := parseMessage(c.text)
		got, want := Message{Subject: subject, Body: body, Trailers: trailers}, Message{Subject: c.subject, Body: c.body, Trailers: c.trailers}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

// trailersOf are the trailers that Format can keep.
func trailersOf(m Message) (kept []Trailer) {
	for _, t := range m.Trailers {
		if key := strings.Map(keyRune, t.Key); key != "" {
			kept = append(kept, Trailer{key, oneLine(t.Value)})
		}
	}
	return kept
}

func checkMessage(t interface{ Fatalf(string, ...any) }, m Message) {
	text := m.Format()
	subject, body, trailers := parseMessage(text)
	first, _, _ := strings.Cut(text, "\n")
	if subject != first || utf8.RuneCountInString(first) > width || !utf8.ValidString(text) {
		t.Fatalf("subject %q of %q", subject, text)
	}
	if kept := trailersOf(m); len(kept) > 0 {
		if diff := cmp.Diff(kept, trailers); diff != "" {
			t.Fatalf("trailers of %q:\n%s", text, diff)
		}
		if again := (Message{Subject: subject, Body: body, Trailers: trailers}).Format(); again != text {
			t.Fatalf("%q read and formatted again is %q", text, again)
		}
	}
	for line := range strings.Lines(body) {
		if line = strings.TrimSpace(line); utf8.RuneCountInString(line) > width && strings.Contains(line, " ") {
			t.Fatalf("line too long: %q", line)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add("s", "b", "K", "v", "L", "w")
	f.Add("---", "--- a\n\nX: y", "a b", "c\n d", "", "")
	f.Fuzz(func(t *testing.T, subject, body, k1, v1, k2, v2 string) {
		checkMessage(t, Message{Subject: subject, Body: body, Trailers: []Trailer{{k1, v1}, {k2, v2}}})
		parseMessage(body)
	})
}

func TestGitParsesTheSameTrailers(t *testing.T) {
	dir := t.TempDir()
	round := 0
	line := rapid.StringOf(rapid.SampledFrom([]rune("ab:-# \n\t(…\x00é")))
	rapid.Check(t, func(t *rapid.T) {
		if round++; round > 60 {
			return // each round starts git
		}
		m := Message{Subject: line.Draw(t, "subject"), Body: line.Draw(t, "body")}
		for range rapid.IntRange(1, 4).Draw(t, "trailers") {
			m.Trailers = append(m.Trailers, Trailer{line.Draw(t, "key"), line.Draw(t, "value")})
		}
		m.Trailers = append(m.Trailers, Trailer{"Godwit-Source", "abc"})
		checkMessage(t, m)
		out, err := run(dir, strings.NewReader(m.Format()), "interpret-trailers", "--parse")
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, t := range trailersOf(m) {
			want = append(want, strings.TrimRight(t.Key+": "+t.Value, " "))
		}
		got := strings.Split(out, "\n")
		for i := range got {
			got[i] = strings.TrimRight(got[i], " ")
		}
		if !slices.Equal(got, want) {
			t.Fatalf("git reads %q in %q, want %q", got, m.Format(), want)
		}
	})
}

func FuzzCommitObject(f *testing.F) {
	f.Add([]byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nparent 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <b> 1 +0000\ncommitter a <b> 1 +0100\ngpgsig x\n y\n\nhello\n"))
	f.Add([]byte("tree x\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decodeCommit(emptyTree.Hash, data)
		if err != nil {
			return
		}
		c.public()
		object, err := c.encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeCommit(emptyTree.Hash, object.Data)
		if err != nil || again.message != c.message || again.author != c.author || !slices.Equal(again.parents, c.parents) || again.tree != c.tree {
			t.Errorf("%q became %q, %v", data, object.Data, err)
		}
	})
}
