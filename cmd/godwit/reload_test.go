package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-viper/mapstructure/v2"

	"github.com/godwit-gitops/godwit/gitstate/gittest"
)

// configOf decodes a file as run does.
func configOf(t *testing.T, text string) *Config {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", "/state")
	run, _, err := newRoot(func() {}).Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := decodeConfig(run, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// settingNames are all that there are.
func settingNames() []string {
	names := slices.Sorted(maps.Keys(settings))
	for _, of := range []string{"source.auth.", "state.auth.", "agent.auth."} {
		for _, name := range append([]string{"useAgent", "insecureHTTP"}, authSettings...) {
			names = append(names, of+name)
		}
	}
	return names
}

// with is a configuration with another value of one setting, whatever it takes.
func with(c *Config, name string) (_ *Config, err error) {
	for _, value := range []any{"7", "7s", true, false, []map[string]any{{}}} {
		for _, part := range slices.Backward(strings.Split(name, ".")) {
			value = map[string]any{part: value}
		}
		other := *c
		var d *mapstructure.Decoder
		if d, err = mapstructure.NewDecoder(&mapstructure.DecoderConfig{
			Result: &other, WeaklyTypedInput: true, ErrorUnused: true, DecodeHook: mapstructure.StringToTimeDurationHookFunc(),
		}); err != nil {
			return nil, err
		}
		if err = d.Decode(value); err == nil && !reflect.DeepEqual(c, &other) {
			return &other, nil
		}
	}
	return nil, err
}

// Every setting that there is is missed when it changes, by its own name and alone.
func TestAChangeOfEachSettingIsNoticed(t *testing.T) {
	before := configOf(t, "")
	for _, name := range settingNames() {
		after, err := with(before, name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := before.changed(after); !slices.Equal(got, []string{name}) {
			t.Errorf("%s changed, and %q is noticed", name, got)
		}
	}
	if got := before.changed(configOf(t, "# a comment\n")); len(got) > 0 {
		t.Errorf("%q changed by a comment", got)
	}
}

func TestWhatTakesARestart(t *testing.T) {
	const leading = "leaderElection: {enabled: true}\n"
	for _, test := range []struct {
		before, after string
		want          []string
	}{
		{"", "failover: {defaultTolerationSeconds: 5}", nil},
		{"", "state: {statusInterval: 5s, requirePush: true, author: {name: a}}", nil},
		{"", "dataDir: elsewhere", []string{"dataDir"}},
		{"", "state: {branch: other}\nlogFormat: json\nfleet: other", []string{"fleet", "logFormat", "state.branch"}},
		{"", leading, []string{"leaderElection.enabled"}},
		{"", "management: {context: other}", nil},
		{leading, leading + "management: {context: other}", []string{"management.context"}},
		// Where the state branch is hangs on the source unless it is said.
		{"source: {url: a}\ndataDir: d", "source: {url: b}\ndataDir: d", []string{"source.url"}},
		{"source: {url: a}\nstate: {url: s}", "source: {url: b}\nstate: {url: s}", nil},
		{"source: {url: a}\nstate: {url: s}\ndataDir: d", "source: {url: a}\nstate: {url: t}\ndataDir: d", []string{"state.url"}},
	} {
		if got := configOf(t, test.before).fixed(configOf(t, test.after)); !slices.Equal(got, test.want) {
			t.Errorf("from %q to %q: %q, want %q", test.before, test.after, got, test.want)
		}
	}
}

// What a loop cannot be made of is found without making one; what it can is not refused.
func TestTheRehearsalFindsWhatTheLoopWould(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"README.md": "a fleet"}, "first")
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	junk := file("junk", "junk")
	for name, change := range map[string]func(c *Config){
		"nothing":             func(*Config) {},
		"no source":           func(c *Config) { c.Source.URL = "" },
		"source URL":          func(c *Config) { c.Source.URL = "ftp://example.com/x" },
		"source password":     func(c *Config) { c.Source.Auth.PasswordFile = filepath.Join(dir, "none") },
		"state URL":           func(c *Config) { c.State.URL = "ftp://example.com/x" },
		"reports of agents":   func(c *Config) { c.Agent.URL = "ftp://example.com/x" },
		"folder":              func(c *Config) { c.Source.URL, c.sourceDir = "", dir },
		"path in the folder":  func(c *Config) { c.Source.URL, c.sourceDir, c.Source.Path = "", dir, "none" },
		"signers of a folder": func(c *Config) { c.Source.URL, c.sourceDir, c.Source.Verify.AllowedSigners = "", dir, junk },
		"signers":             func(c *Config) { c.Source.Verify.AllowedSigners = junk },
		"signers of state":    func(c *Config) { c.State.Verify.AllowedSigners = junk },
		"nobody may sign":     func(c *Config) { c.State.Verify.Mode = "enforce" },
		"signing key":         func(c *Config) { c.State.SigningKey = junk },
		"secret key":          func(c *Config) { c.State.SecretKeyFile = junk },
		"management":          func(c *Config) { c.Management.Kubeconfig = junk },
		"no management":       func(c *Config) { c.Clusters.ArgoCD = true },
		"notifications":       func(c *Config) { c.Notifications = []notificationConfig{{Type: "pigeon"}} },
		"their certificates": func(c *Config) {
			c.Notifications = []notificationConfig{{Type: "slack", URL: "https://example.com/x", CAFile: junk}}
		},
	} {
		c := configOf(t, "")
		c.DataDir, c.Source.URL, c.Source.Branch = filepath.Join(t.TempDir(), "data"), repo.Dir, "main"
		change(c)
		rehearsed := c.rehearse()
		if _, err := os.Stat(c.DataDir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the rehearsal wrote to the data folder: %v", name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		l, err := c.loop(ctx, slog.New(slog.DiscardHandler), nil)
		if err == nil {
			l.close()
		}
		cancel()
		if fmt.Sprint(rehearsed) != fmt.Sprint(err) && (rehearsed == nil || err == nil) {
			t.Errorf("%s: the rehearsal says %v, the loop %v", name, rehearsed, err)
		}
	}
}

// A file that a setting names is followed, or is one of those that are read at each use.
func TestEachFileThatASettingNamesIsFollowed(t *testing.T) {
	always := []string{"clusters.kubeconfig", "source.auth.sshKeyFile", "source.auth.knownHostsFile", "state.auth.sshKeyFile", "state.auth.knownHostsFile", "agent.auth.sshKeyFile", "agent.auth.knownHostsFile",
		"server.webhooks.idFile", "server.webhooks.githubSecretFile", "server.webhooks.giteaSecretFile", "server.webhooks.gitlabTokenFile", "server.webhooks.standardSecretFile"}
	for _, name := range settingNames() {
		lower := strings.ToLower(name)
		if !strings.HasSuffix(lower, "file") && !strings.HasSuffix(lower, "kubeconfig") && !strings.HasSuffix(lower, "signers") && !strings.HasSuffix(lower, "keys") && !strings.HasSuffix(lower, "signingkey") {
			continue
		}
		c, err := with(configOf(t, ""), name)
		if err != nil {
			t.Fatal(err)
		}
		followed := slices.ContainsFunc(c.named(), func(f namedFile) bool {
			setting, _, _ := strings.Cut(f.setting, "[")
			return setting == name && f.path == "7"
		})
		if followed == slices.Contains(always, name) {
			t.Errorf("%s: followed: %t", name, followed)
		}
	}
}
