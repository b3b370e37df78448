package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// Whatever a text is, both forms for machines have it, and JSON steers no terminal.
func TestMachinesGetEveryText(t *testing.T) {
	check := func(t rapid.TB, said string) {
		want := strings.ToValidUTF8(said, "\ufffd")
		for form, write := range map[string]func(*bytes.Buffer) error{
			"JSON": func(b *bytes.Buffer) error { return writeJSON(b, map[string]string{"a": want}) },
			"YAML": func(b *bytes.Buffer) error { return writeYAML(b, map[string]string{"a": want}) },
		} {
			var out bytes.Buffer
			if err := write(&out); err != nil {
				t.Fatalf("%s of %q: %v", form, want, err)
			}
			var got map[string]string
			if form == "YAML" {
				if err := yaml.Unmarshal(out.Bytes(), &got); err != nil {
					t.Fatalf("%s of %q: %v\n%s", form, want, err, out.Bytes())
				}
			} else if err := json.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatalf("%s of %q: %v\n%s", form, want, err, out.Bytes())
			} else if strings.ContainsAny(out.String(), "\u009b\u007f\u202e\u200b\x1b") {
				t.Errorf("%q steers", out.Bytes())
			}
			if got["a"] != want {
				t.Errorf("%s of %q is read as %q", form, want, got["a"])
			}
		}
	}
	for _, said := range []string{"\u0080web", "a\u009b31m", "\u007f", "\u202e\u200b", "\ufeffx", "\ufffe\uffff", "😀 é \u0085 \u2028", "\x1b[31m", "\xff"} {
		check(t, said)
	}
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.String().Draw(t, "said")) })
}

func TestMessagesAreOneLine(t *testing.T) {
	var out bytes.Buffer
	say(&out, "read a\x1b[31m\nforged: \u202eb")
	if got := out.String(); got != "godwit: read a\ufffd[31m forged: \ufffdb\n" {
		t.Errorf("got %q", got)
	}
}

func TestTheLogHasNoUsersOfURLs(t *testing.T) {
	for text, want := range map[string]string{
		"Get \"https://ada:horse@git.example.com/x\": EOF": "Get \"https://git.example.com/x\": EOF",
		"https://token@a/ and ssh://git@b/c":               "https://a/ and ssh://b/c",
		"https://ada:p@ss@git.example.com":                 "https://git.example.com",
		"git@example.com:a/b https://x/y@z?w=a@b":          "git@example.com:a/b https://x/y@z?w=a@b",
		"nothing": "nothing",
	} {
		if got := withoutUser(slog.String("k", text)).Value.String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		if got := withoutUser(slog.Any("error", errors.New(text))).Value.String(); got != want {
			t.Errorf("an error %s: %s, want %s", text, got, want)
		}
	}
	if got := withoutUser(slog.Int("n", 3)); !got.Equal(slog.Int("n", 3)) {
		t.Errorf("a number is %v", got)
	}
}

// What is not kustomize's passes the sieve.
func TestTheSieve(t *testing.T) {
	var out bytes.Buffer
	log.New(sieve{&out}, "", 0).Print("http: something")
	if got := out.String(); got != "http: something\n" {
		t.Errorf("got %q", got)
	}
}
