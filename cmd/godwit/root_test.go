package main

import (
	"errors"
	"log/slog"
	"testing"
)

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
