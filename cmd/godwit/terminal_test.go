package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestColours(t *testing.T) {
	for _, test := range []struct {
		off, terminal bool
		env           string
		want          bool
	}{
		{false, true, "", true},
		{false, false, "", false},
		{true, true, "", false},
		{true, true, "FORCE_COLOR=1", false},
		{false, true, "TERM=dumb", false},
		{false, true, "TERM=xterm", true},
		{false, true, "CLICOLOR=0", false},
		{false, true, "CLICOLOR=1", true},
		{false, true, "NO_COLOR=1", false},
		{false, true, "NO_COLOR=0", false},
		{false, true, "NO_COLOR=", true},
		{false, false, "FORCE_COLOR=1", true},
		{false, false, "FORCE_COLOR=0", false},
		{false, true, "FORCE_COLOR=0", true},
		{false, false, "CLICOLOR_FORCE=1", true},
		{false, false, "CLICOLOR_FORCE=0", false},
		{false, false, "CLICOLOR_FORCE=1 TERM=dumb", true},
		{false, true, "CLICOLOR_FORCE=1 NO_COLOR=1", false},
	} {
		env := map[string]string{}
		for word := range strings.FieldsSeq(test.env) {
			name, value, _ := strings.Cut(word, "=")
			env[name] = value
		}
		if got := coloured(test.off, test.terminal, func(name string) string { return env[name] }); got != test.want {
			t.Errorf("--no-color %t, terminal %t, %s: %t", test.off, test.terminal, test.env, got)
		}
	}
}

func TestWidth(t *testing.T) {
	for _, test := range []struct {
		said string
		size int
		err  error
		want int
	}{
		{"", 80, nil, 80},
		{"100", 80, nil, 100},
		{"0", 80, nil, 80},
		{"wide", 80, nil, 80},
		{"-1", 80, nil, 80},
		{"", 0, errors.New("no terminal"), 0},
		{"100", 0, errors.New("no terminal"), 100},
	} {
		if got := columns(test.said, func() (int, error) { return test.size, test.err }); got != test.want {
			t.Errorf("COLUMNS=%s, terminal %d, %v: %d, want %d", test.said, test.size, test.err, got, test.want)
		}
	}
}

func TestDiffCommandIsReadAsKubectlDoes(t *testing.T) {
	for _, test := range []struct{ said, want string }{
		{"diff", "diff L M"},
		{"diff -u -N --color=always", "diff L M -u -N --color=always"},
		{"diff  -u", "diff L M -u"},
		{"diff -I name:.* /etc/passwd $HOME ;rm", "diff L M -I"},
		{"/usr/bin/my_diff 'a b'", "/usr/bin/my_diff L M"},
	} {
		program, args := diffCommand(test.said, "L", "M")
		if got := strings.Join(slices.Concat([]string{program}, args), " "); got != test.want {
			t.Errorf("%s: %s, want %s", test.said, got, test.want)
		}
	}
}
