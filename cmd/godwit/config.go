package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/godwit-gitops/godwit/gitstate/regular"
	"github.com/godwit-gitops/godwit/gitstate/remote"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/failover"
	"github.com/godwit-gitops/godwit/render/project"
)

// Config is everything that can be set: by godwit.yaml, by GODWIT_* variables, by flags; later wins.
// It is decoded once and not changed afterwards.
type Config struct {
	Source struct {
		URL              string        `mapstructure:"url"`
		Branch           string        `mapstructure:"branch"`
		Path             string        `mapstructure:"path"`
		DefaultNamespace string        `mapstructure:"defaultNamespace"`
		PollInterval     time.Duration `mapstructure:"pollInterval"`
		Auth             authConfig    `mapstructure:"auth"`
		Rewrites         string        `mapstructure:"rewrites"`
		Verify           struct {
			Mode          string        `mapstructure:"mode"`
			Limits        []limitConfig `mapstructure:"limits"`
			signersConfig `mapstructure:",squash"`
		} `mapstructure:"verify"`
	} `mapstructure:"source"`
	State struct {
		URL            string        `mapstructure:"url"`
		Branch         string        `mapstructure:"branch"`
		StatusInterval time.Duration `mapstructure:"statusInterval"`
		RequirePush    bool          `mapstructure:"requirePush"`
		Author         struct {
			Name  string `mapstructure:"name"`
			Email string `mapstructure:"email"`
		} `mapstructure:"author"`
		SecretKeyFile            string     `mapstructure:"secretKeyFile"`
		SigningKey               string     `mapstructure:"signingKey"`
		SigningKeyPassphraseFile string     `mapstructure:"signingKeyPassphraseFile"`
		Auth                     authConfig `mapstructure:"auth"`
		Verify                   struct {
			Mode          string `mapstructure:"mode"`
			Since         string `mapstructure:"since"`
			signersConfig `mapstructure:",squash"`
		} `mapstructure:"verify"`
	} `mapstructure:"state"`
	Management struct {
		Kubeconfig string `mapstructure:"kubeconfig"`
		Context    string `mapstructure:"context"`
	} `mapstructure:"management"`
	LeaderElection electionConfig `mapstructure:"leaderElection"`
	Sharding       struct {
		Enabled bool `mapstructure:"enabled"`
	} `mapstructure:"sharding"`
	Clusters struct {
		ArgoCD           bool          `mapstructure:"argocd"`
		Namespaces       []string      `mapstructure:"namespaces"`
		ExecCommands     []string      `mapstructure:"execCommands"`
		AllowedHosts     []string      `mapstructure:"allowedHosts"`
		Kubeconfig       []string      `mapstructure:"kubeconfig"`
		ProbeInterval    time.Duration `mapstructure:"probeInterval"`
		ProbeTimeout     time.Duration `mapstructure:"probeTimeout"`
		SuccessThreshold time.Duration `mapstructure:"successThreshold"`
		FailureThreshold time.Duration `mapstructure:"failureThreshold"`
	} `mapstructure:"clusters"`
	Agent struct {
		URL           string        `mapstructure:"url"`
		Auth          authConfig    `mapstructure:"auth"`
		Heartbeat     time.Duration `mapstructure:"heartbeat"`
		LeaseDuration time.Duration `mapstructure:"leaseDuration"`
		PollInterval  time.Duration `mapstructure:"pollInterval"`
	} `mapstructure:"agent"`
	Server struct {
		Address  string `mapstructure:"address"`
		Webhooks struct {
			Address            string `mapstructure:"address"`
			IDFile             string `mapstructure:"idFile"`
			GitHubSecretFile   string `mapstructure:"githubSecretFile"`
			GiteaSecretFile    string `mapstructure:"giteaSecretFile"`
			GitLabTokenFile    string `mapstructure:"gitlabTokenFile"`
			StandardSecretFile string `mapstructure:"standardSecretFile"`
		} `mapstructure:"webhooks"`
	} `mapstructure:"server"`
	Notifications []notificationConfig `mapstructure:"notifications"`
	Webhooks      struct {
		AllowedHosts []string `mapstructure:"allowedHosts"`
	} `mapstructure:"webhooks"`
	Scheduling struct {
		AccurateEstimator bool `mapstructure:"accurateEstimator"`
	} `mapstructure:"scheduling"`
	Projects   []projectConfig    `mapstructure:"projects"`
	Decryption []decryptionConfig `mapstructure:"decryption"`
	Safety     struct {
		MaxDeletePercent int `mapstructure:"maxDeletePercent"`
	} `mapstructure:"safety"`
	Failover struct {
		DefaultTolerationSeconds int32         `mapstructure:"defaultTolerationSeconds"`
		UnknownHealth            string        `mapstructure:"unknownHealth"`
		EvictionTimeout          time.Duration `mapstructure:"evictionTimeout"`
		MaxEvictionsPerMinute    int           `mapstructure:"maxEvictionsPerMinute"`
		BrakeWindow              time.Duration `mapstructure:"brakeWindow"`
		Anchors                  []string      `mapstructure:"anchors"`
	} `mapstructure:"failover"`
	Delivery string `mapstructure:"delivery"`
	Tracking struct {
		StripInstanceLabel bool `mapstructure:"stripInstanceLabel"`
	} `mapstructure:"tracking"`
	Fleet      string `mapstructure:"fleet"`
	Namespaces string `mapstructure:"namespaces"`
	Compat     string `mapstructure:"compat"`
	DataDir    string `mapstructure:"dataDir"`
	LogFormat  string `mapstructure:"logFormat"`

	// projects are Projects, compiled.
	projects *project.Set
	// sourceDir is a folder given by --source, read as it is on disk.
	sourceDir string
	// here is the repository that this folder is in, for commands that only look and where no source is named.
	here string
	// sourceGiven: --source, or a file named by --config, says what the source is.
	sourceGiven bool
	// text is the file that it was read from; nil where there was none.
	text []byte
	// notes is where commands say what they took for granted.
	notes io.Writer
	// passingKey tells secret values apart within one command that needs no record's digests; nil for none.
	passingKey []byte
	// progress is where they say what takes long; nil where nobody looks.
	progress *progress
}

// note says something that is no result.
func (c *Config) note(format string, args ...any) {
	say(c.notes, fmt.Sprintf(format, args...))
}

type authConfig struct {
	Username         string `mapstructure:"username"`
	Password         string `mapstructure:"password"`
	PasswordFile     string `mapstructure:"passwordFile"`
	BearerToken      string `mapstructure:"bearerToken"`
	BearerTokenFile  string `mapstructure:"bearerTokenFile"`
	CAFile           string `mapstructure:"caFile"`
	SSHKeyFile       string `mapstructure:"sshKeyFile"`
	SSHKeyPassphrase string `mapstructure:"sshKeyPassphrase"`
	KnownHostsFile   string `mapstructure:"knownHostsFile"`
	UseAgent         bool   `mapstructure:"useAgent"`
	InsecureHTTP     bool   `mapstructure:"insecureHTTP"`
}

type notificationConfig struct {
	Type          string        `mapstructure:"type"`
	URL           string        `mapstructure:"url"`
	URLFile       string        `mapstructure:"urlFile"`
	SecretFile    string        `mapstructure:"secretFile"`
	TokenFile     string        `mapstructure:"tokenFile"`
	CAFile        string        `mapstructure:"caFile"`
	Reasons       []string      `mapstructure:"reasons"`
	Template      string        `mapstructure:"template"`
	Interval      time.Duration `mapstructure:"interval"`
	AllowLoopback bool          `mapstructure:"allowLoopback"`
}

type projectConfig struct {
	Name           string   `mapstructure:"name"`
	Paths          []string `mapstructure:"paths"`
	Namespaces     []string `mapstructure:"namespaces"`
	Kinds          []string `mapstructure:"kinds"`
	ClusterScoped  []string `mapstructure:"clusterScoped"`
	Members        []string `mapstructure:"members"`
	MemberSelector string   `mapstructure:"memberSelector"`
	ServiceAccount string   `mapstructure:"serviceAccount"`
}

// remote opens a repository with the credentials.
func (a authConfig) remote(url string) (*remote.Remote, error) {
	return a.open(remote.Options{URL: url})
}

// open is remote with limits of what may be fetched.
func (a authConfig) open(o remote.Options) (*remote.Remote, error) {
	auth := remote.Auth{
		Username: a.Username, Password: a.Password, BearerToken: a.BearerToken, CAFile: a.CAFile,
		SSHKeyFile: a.SSHKeyFile, SSHKeyPassphrase: a.SSHKeyPassphrase, KnownHostsFile: a.KnownHostsFile, UseAgent: a.UseAgent,
	}
	for _, secret := range []struct {
		file string
		into *string
	}{{a.PasswordFile, &auth.Password}, {a.BearerTokenFile, &auth.BearerToken}} {
		if secret.file == "" {
			continue
		}
		text, err := os.ReadFile(secret.file)
		if err != nil {
			return nil, fmt.Errorf("read credentials: %w", err)
		}
		*secret.into = strings.TrimSpace(string(text))
	}
	o.Auth, o.InsecureHTTP = auth, a.InsecureHTTP
	return remote.New(o)
}

// settings are all keys with their defaults. A key that is not here does not exist.
var settings = map[string]any{
	"source.url": "", "source.branch": "", "source.path": ".", "source.defaultNamespace": "default", "source.pollInterval": "15s",
	"state.url": "", "state.branch": "godwit/state", "state.statusInterval": "60s", "state.requirePush": false,
	"state.author.name": "godwit", "state.author.email": "godwit@godwit.dev", "state.secretKeyFile": "",
	"management.kubeconfig": "", "management.context": "",
	"leaderElection.enabled": false, "leaderElection.namespace": "", "leaderElection.name": "godwit", "leaderElection.identity": "",
	"leaderElection.leaseDuration": "15s", "leaderElection.renewDeadline": "10s", "leaderElection.retryPeriod": "2s",
	"sharding.enabled": false,
	"clusters.argocd":  false, "clusters.namespaces": []string{}, "clusters.execCommands": []string{}, "clusters.allowedHosts": []string{},
	"source.rewrites": "refuse", "source.verify.mode": "", "source.verify.allowedSigners": "", "source.verify.openPGPKeys": []string{}, "source.verify.revokedKeys": "", "source.verify.limits": []any{},
	"state.signingKey": "", "state.signingKeyPassphraseFile": "", "state.verify.mode": "", "state.verify.since": "",
	"state.verify.allowedSigners": "", "state.verify.openPGPKeys": []string{}, "state.verify.revokedKeys": "",
	"clusters.kubeconfig": []string{}, "clusters.probeInterval": "10s", "clusters.probeTimeout": "5s",
	"clusters.successThreshold": "30s", "clusters.failureThreshold": "30s",
	"agent.url": "", "agent.heartbeat": "30s", "agent.leaseDuration": "2m", "agent.pollInterval": "15s",
	"failover.defaultTolerationSeconds": 300, "failover.unknownHealth": "keep", "failover.evictionTimeout": "10m",
	"failover.maxEvictionsPerMinute": 0, "failover.brakeWindow": "1m", "failover.anchors": []string{},
	"server.address": "", "server.webhooks.address": "", "server.webhooks.idFile": "", "server.webhooks.githubSecretFile": "",
	"server.webhooks.giteaSecretFile": "", "server.webhooks.gitlabTokenFile": "", "server.webhooks.standardSecretFile": "",
	"notifications": []any{}, "projects": []any{}, "decryption": []any{},
	"webhooks.allowedHosts": []string{}, "scheduling.accurateEstimator": false, "safety.maxDeletePercent": 50,
	"delivery": "push", "tracking.stripInstanceLabel": true,
	"fleet": "godwit", "namespaces": "needed", "compat": "", "dataDir": "", "logFormat": "text",
}

var authOf = []string{"source.auth.", "state.auth.", "agent.auth."}

var authSettings = []string{"username", "password", "passwordFile", "bearerToken", "bearerTokenFile", "caFile",
	"sshKeyFile", "sshKeyPassphrase", "knownHostsFile"}

// flagKeys are the settings that flags set.
var flagKeys = map[string]string{
	"branch": "source.branch", "path": "source.path", "kubeconfig": "clusters.kubeconfig",
}

// commonFlags are taken by every command.
func commonFlags(f *pflag.FlagSet) {
	f.String("config", "", "configuration file (default: $GODWIT_CONFIG, or godwit.yaml in this folder, if there is one)")
	f.String("source", "", "the source: a folder, read as it is on disk, or the URL of a repository (default: source.url; else, to look at, the repository that this folder is in)")
	f.String("branch", "", "branch of the source (default: the remote's)")
	f.String("path", ".", "folder of the source")
	f.StringSlice("kubeconfig", nil, "kubeconfig files with the members' credentials (default: $KUBECONFIG)")
	f.Bool("no-color", false, "no colours, even on a terminal")
	f.CountP("verbose", "v", "log more; twice for everything")
}

// configFile is the file of a command's configuration, and whether somebody named it.
func configFile(cmd *cobra.Command) (file string, named bool) {
	if f := cmd.Flag("config"); f != nil && f.Value.String() != "" {
		return f.Value.String(), true
	}
	if named := os.Getenv("GODWIT_CONFIG"); named != "" {
		return named, true
	}
	return "godwit.yaml", false
}

// readConfig reads a configuration file. One that nobody named has to be a file, and not too large.
func readConfig(file string, named bool) ([]byte, error) {
	if named {
		return os.ReadFile(file)
	}
	return regular.ReadFile(file, maxConfig)
}

// loadConfig reads the configuration of a command.
func loadConfig(cmd *cobra.Command) (*Config, error) {
	file, named := configFile(cmd)
	text, err := readConfig(file, named)
	if err != nil && (named || !errors.Is(err, os.ErrNotExist)) {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return decodeConfig(cmd, text)
}

// decodeConfig is loadConfig of what was read; without a file there is no text.
func decodeConfig(cmd *cobra.Command, text []byte) (*Config, error) {
	file, named := configFile(cmd)
	v := viper.New()
	v.SetEnvPrefix("GODWIT")
	v.SetEnvKeyReplacer(strings.NewReplacer(".", "_"))
	v.AutomaticEnv()
	for key, value := range settings {
		v.SetDefault(key, value)
	}
	for _, of := range []string{"source.auth.", "state.auth.", "agent.auth."} {
		for _, key := range authSettings {
			v.SetDefault(of+key, "")
		}
		v.SetDefault(of+"useAgent", false)
		v.SetDefault(of+"insecureHTTP", false)
	}
	for flag, key := range flagKeys {
		if f := cmd.Flag(flag); f != nil {
			if err := v.BindPFlag(key, f); err != nil {
				return nil, err
			}
		}
	}
	v.SetConfigFile(file)
	if filepath.Ext(file) == "" {
		v.SetConfigType("yaml") // which viper tells by the ending alone
	}
	if err := takeFile(cmd, v, text); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	c := &Config{text: text}
	strict := func(d *mapstructure.DecoderConfig) { d.ErrorUnused = true }
	if err := v.Unmarshal(c, strict); err != nil {
		return nil, fmt.Errorf("configuration (%s, GODWIT_* variables, flags): %w", file, err)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := c.compileProjects(); err != nil {
		return nil, err
	}
	if err := c.checkDecryption(); err != nil {
		return nil, err
	}
	c.sourceGiven, c.notes = named, cmd.ErrOrStderr()
	return c, c.locate(cmd)
}

// maxConfig is more than any configuration has.
const maxConfig = 1 << 20

// steering are the settings that say what is decided. They reach nothing outside of the source, so a command that only
// looks takes them also from a file that belongs to the source.
var steering = []string{
	"source.branch", "source.path", "source.defaultNamespace", "source.pollInterval", "state.branch", "state.statusInterval", "state.requirePush",
	"clusters.probeInterval", "clusters.probeTimeout", "clusters.successThreshold", "clusters.failureThreshold",
	"failover.defaultTolerationSeconds", "failover.unknownHealth", "failover.evictionTimeout", "failover.maxEvictionsPerMinute", "failover.brakeWindow",
	"scheduling.accurateEstimator", "safety.maxDeletePercent", "delivery", "tracking.stripInstanceLabel", "fleet", "namespaces", "compat", "logFormat", "projects",
}

// takeFile takes the text of a configuration file. For a command that only looks, one that nobody named and that is in a work
// tree or in the source is a part of what is looked at, and may be anybody's proposal: what it says of hosts, credentials
// and other files of this machine is left out.
func takeFile(cmd *cobra.Command, v *viper.Viper, text []byte) error {
	file, named := configFile(cmd)
	if named || acts(cmd) || !ofSource(cmd) {
		return v.ReadConfig(bytes.NewReader(text))
	}
	whole, part := viper.New(), viper.New()
	whole.SetConfigType("yaml")
	if err := whole.ReadConfig(bytes.NewReader(text)); err != nil {
		return err
	}
	known := map[string]string{}
	for _, key := range v.AllKeys() {
		known[key] = key
	}
	for key := range settings {
		known[strings.ToLower(key)] = key
	}
	for _, of := range authOf {
		for _, key := range append([]string{"useAgent", "insecureHTTP"}, authSettings...) {
			known[strings.ToLower(of+key)] = of + key
		}
	}
	var left []string
	for _, key := range whole.AllKeys() {
		name, ok := known[key]
		if ok && !slices.Contains(steering, name) {
			left = append(left, name)
			continue
		}
		part.Set(key, whole.Get(key)) // a key that does not exist is refused with the others
	}
	if len(left) > 0 {
		slices.Sort(left)
		fmt.Fprintf(cmd.ErrOrStderr(), "godwit: %s is a part of the source here, so these of its settings are not taken: %s; --config %s takes them\n", file, strings.Join(left, ", "), file)
	}
	return v.MergeConfigMap(part.AllSettings())
}

// acts tells whether a command does something with what is configured: who starts it in a folder means the
// configuration there.
func acts(cmd *cobra.Command) bool {
	if parent := cmd.Parent(); parent != nil && parent.Name() == "clusters" {
		return true
	}
	return slices.Contains([]string{"run", "agent", "approve", "demo"}, cmd.Name())
}

// ofSource tells whether this folder is in a work tree or in the source.
func ofSource(cmd *cobra.Command) bool {
	if repositoryOf(".") != "" {
		return true
	}
	f := cmd.Flag("source")
	if f == nil || f.Value.String() == "" {
		return false
	}
	_, err := relative(f.Value.String(), []string{"."})
	return err == nil
}

// check refuses values that no command could use.
func (c *Config) check() error {
	switch {
	case c.Compat != "" && c.Compat != "karmada":
		return fmt.Errorf("compat: %q is not known; it is empty or karmada", c.Compat)
	case c.Delivery != string(decide.DeliveryPush) && c.Delivery != string(decide.DeliveryHydrate):
		return fmt.Errorf("delivery: %q is not known; it is push or hydrate", c.Delivery)
	case c.Namespaces != "needed" && c.Namespaces != "all" && c.Namespaces != "none":
		return fmt.Errorf("namespaces: %q is not known; it is needed, all or none", c.Namespaces)
	case c.Safety.MaxDeletePercent < 0:
		return fmt.Errorf("safety.maxDeletePercent: %d is below 0; 100 or more turns the brake off", c.Safety.MaxDeletePercent)
	case c.Failover.UnknownHealth != "keep" && c.Failover.UnknownHealth != "reset":
		return fmt.Errorf("failover.unknownHealth: %q is not known; it is keep or reset", c.Failover.UnknownHealth)
	case c.Failover.DefaultTolerationSeconds < 0:
		return fmt.Errorf("failover.defaultTolerationSeconds: %d is below 0", c.Failover.DefaultTolerationSeconds)
	case c.Failover.MaxEvictionsPerMinute < 0:
		return fmt.Errorf("failover.maxEvictionsPerMinute: %d is below 0; 0 means any number from one member and 20 from more", c.Failover.MaxEvictionsPerMinute)
	case c.Source.Rewrites != "refuse" && c.Source.Rewrites != "follow":
		return fmt.Errorf("source.rewrites: %q is not known; it is refuse or follow", c.Source.Rewrites)
	case !slices.Contains([]string{"", "none", "head", "all"}, c.Source.Verify.Mode):
		return fmt.Errorf("source.verify.mode: %q is not known; it is none, head or all", c.Source.Verify.Mode)
	case !slices.Contains([]string{"", "none", "warn", "enforce"}, c.State.Verify.Mode):
		return fmt.Errorf("state.verify.mode: %q is not known; it is none, warn or enforce", c.State.Verify.Mode)
	case c.State.Verify.Since != "" && !fullHash.MatchString(c.State.Verify.Since):
		return fmt.Errorf("state.verify.since: %q is no commit; give its hash of 40 digits", c.State.Verify.Since)
	case c.State.SigningKey == "" && c.State.SigningKeyPassphraseFile != "":
		return errors.New("state.signingKeyPassphraseFile: there is no state.signingKey that it could open")
	case c.LeaderElection.Enabled && c.LeaderElection.problem() != "":
		return fmt.Errorf("leaderElection: %s", c.LeaderElection.problem())
	case c.Sharding.Enabled && !c.LeaderElection.Enabled:
		return errors.New("sharding.enabled: members are divided over replicas of which one leads; set leaderElection.enabled, too")
	case c.Agent.LeaseDuration < 2*(c.Agent.Heartbeat+c.Agent.PollInterval):
		return fmt.Errorf("agent.leaseDuration: %s is less than twice agent.heartbeat and agent.pollInterval together, %s: one report that comes late would make a member Unknown",
			c.Agent.LeaseDuration, 2*(c.Agent.Heartbeat+c.Agent.PollInterval))
	case c.LogFormat != "text" && c.LogFormat != "json":
		return fmt.Errorf("logFormat: %q is not known; it is text or json", c.LogFormat)
	case c.Source.Branch == c.State.Branch && (c.State.URL == "" || c.State.URL == c.Source.URL):
		return fmt.Errorf("source.branch and state.branch are both %s: what people push and what is decided need a branch each", c.State.Branch)
	}
	for i, l := range c.Source.Verify.Limits {
		if l.Signer == "" || len(l.Paths) == 0 || slices.ContainsFunc(l.Paths, func(p string) bool { return p == "." || !fs.ValidPath(p) }) {
			return fmt.Errorf("source.verify.limits[%d]: needs a signer, as in the list of signers, and paths of the repository such as apps/shop", i)
		}
	}
	for _, listen := range [][2]string{{"server.address", c.Server.Address}, {"server.webhooks.address", c.Server.Webhooks.Address}} {
		if _, port, err := net.SplitHostPort(listen[1]); listen[1] != "" && (err != nil || port == "") {
			return fmt.Errorf("%s: %q is no address to listen on; write it like :8080 or 127.0.0.1:8080", listen[0], listen[1])
		}
	}
	if w := c.Server.Webhooks; w.Address == "" && w != (Config{}).Server.Webhooks {
		return errors.New("server.webhooks.address: is missing, and without it nobody receives push webhooks")
	} else if w.Address != "" && (w.IDFile == "" || len(c.hookSecrets()) == 0) {
		return errors.New("server.webhooks: there is to be an idFile, and one of githubSecretFile, giteaSecretFile, gitlabTokenFile and standardSecretFile")
	}
	for _, anchor := range c.Failover.Anchors {
		if host, port, err := net.SplitHostPort(anchor); err != nil || host == "" || port == "" {
			return fmt.Errorf("failover.anchors: %q is no host:port", anchor)
		}
	}
	for _, namespace := range c.Clusters.Namespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return fmt.Errorf("clusters.namespaces: %q is no namespace: %s", namespace, problems[0])
		}
	}
	for _, command := range c.Clusters.ExecCommands {
		if command == "" {
			return errors.New("clusters.execCommands: a command is empty; write it as the cluster Secrets do, such as argocd-k8s-auth")
		}
	}
	for _, list := range []struct {
		key, example string
		hosts        []string
	}{
		{"webhooks.allowedHosts", "interpreter.example.com", c.Webhooks.AllowedHosts}, {"clusters.allowedHosts", "kube02.example.com", c.Clusters.AllowedHosts},
	} {
		for _, host := range list.hosts {
			if host == "" || strings.ContainsAny(host, "/@?# ") {
				return fmt.Errorf("%s: %q is no host; write it like %[3]s or %[3]s:8443", list.key, host, list.example)
			}
		}
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"source.pollInterval", c.Source.PollInterval}, {"state.statusInterval", c.State.StatusInterval},
		{"clusters.probeInterval", c.Clusters.ProbeInterval}, {"clusters.probeTimeout", c.Clusters.ProbeTimeout},
		{"clusters.successThreshold", c.Clusters.SuccessThreshold}, {"clusters.failureThreshold", c.Clusters.FailureThreshold},
		{"agent.heartbeat", c.Agent.Heartbeat}, {"agent.leaseDuration", c.Agent.LeaseDuration}, {"agent.pollInterval", c.Agent.PollInterval},
		{"failover.evictionTimeout", c.Failover.EvictionTimeout}, {"failover.brakeWindow", c.Failover.BrakeWindow},
	} {
		if d.value < 0 || d.value > 0 && d.value < time.Millisecond { // a number without a unit is nanoseconds
			return fmt.Errorf("%s: %s is too short; durations are written like 15s", d.key, d.value)
		}
	}
	return nil
}

func (c *Config) compileProjects() (err error) {
	limits := make([]project.Limits, len(c.Projects))
	for i, p := range c.Projects {
		limits[i] = project.Limits(p)
	}
	c.projects, err = project.Compile(limits)
	return err
}

// locate decides what --source means and where local data is kept.
func (c *Config) locate(cmd *cobra.Command) error {
	if f := cmd.Flag("source"); f != nil && f.Value.String() != "" {
		given := f.Value.String()
		c.sourceGiven = true
		info, err := os.Stat(given)
		switch {
		case err == nil && info.IsDir() && !isBare(given):
			c.sourceDir = given
		case err == nil && !info.IsDir() && !isLink(given):
			return fmt.Errorf("--source %s: is a file; name the folder or repository", given)
		default:
			c.Source.URL = given
		}
	}
	if c.sourceDir == "" && c.Source.URL == "" && !acts(cmd) {
		c.here = repositoryOf(".")
	}
	if c.DataDir == "" {
		base := cmp.Or(os.Getenv("XDG_STATE_HOME"), filepath.Join(os.Getenv("HOME"), ".local", "state"))
		c.DataDir = filepath.Join(base, "godwit", nameOf(cmp.Or(c.State.URL, c.Source.URL, c.folder())))
	}
	return nil
}

// isLink tells whether the file is the .git of a linked work tree, or of a submodule.
func isLink(file string) bool {
	_, _, err := remote.Locate(file)
	return err == nil
}

// isBare tells whether the folder is a bare repository.
func isBare(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// options are the settings that decisions depend on.
func (c *Config) options() decide.Options {
	o := decide.Options{
		Shared: c.Sharding.Enabled, DefaultNamespace: c.Source.DefaultNamespace, Projects: c.projects, Fleet: c.Fleet, CompatKarmada: c.Compat == "karmada",
		Namespaces: decide.NamespaceMode(c.Namespaces), MaxDeletePercent: c.Safety.MaxDeletePercent,
		Delivery: decide.Delivery(c.Delivery), KeepInstanceLabel: !c.Tracking.StripInstanceLabel,
		StatusInterval: c.State.StatusInterval, SourceBranch: c.Source.Branch, SourcePath: c.Source.Path, Version: version,
		Failover: failover.Options{
			DefaultTolerationSeconds: &c.Failover.DefaultTolerationSeconds, ResetUnknown: c.Failover.UnknownHealth == "reset", Timeout: c.Failover.EvictionTimeout,
		},
		MaxEvictionsPerMinute: c.Failover.MaxEvictionsPerMinute, BrakeWindow: c.Failover.BrakeWindow,
	}
	if o.MaxDeletePercent == 0 {
		o.MaxDeletePercent = -1 // 0 % is a setting, not the absence of one
	}
	return o
}
