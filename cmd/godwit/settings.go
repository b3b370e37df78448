package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// changed are the settings in which two configurations differ, by name. A list is one setting.
func (c *Config) changed(next *Config) []string {
	var names []string
	differ("", reflect.ValueOf(c).Elem(), reflect.ValueOf(next).Elem(), &names)
	slices.Sort(names)
	return names
}

func differ(at string, a, b reflect.Value, names *[]string) {
	if a.Kind() != reflect.Struct {
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			*names = append(*names, at)
		}
		return
	}
	for i := range a.NumField() {
		tag, ok := a.Type().Field(i).Tag.Lookup("mapstructure")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case name == "": // squashed
			name = at
		case at != "":
			name = at + "." + name
		}
		differ(name, a.Field(i), b.Field(i), names)
	}
}

// fixedSettings change with a restart alone: where the record is kept, who may write it, and what our marks say. Several
// replicas read a new file at different times, and two of them would lead at once. The log is one for the process.
var fixedSettings = []string{"dataDir", "fleet", "state.url", "state.branch", "leaderElection", "sharding", "logFormat"}

// fixed are the changed settings that take a restart.
func (c *Config) fixed(next *Config) []string {
	of := fixedSettings
	if c.LeaderElection.Enabled || next.LeaderElection.Enabled {
		of = append(slices.Clone(of), "management") // where the Lease is
	}
	if c.stateURL() != next.stateURL() {
		of = append(slices.Clone(of), "source.url") // which is where the state branch is, too
	}
	return slices.DeleteFunc(c.changed(next), func(name string) bool {
		return !slices.ContainsFunc(of, func(fixed string) bool { return name == fixed || strings.HasPrefix(name, fixed+".") })
	})
}

// namedFile is a file that a setting names.
type namedFile struct{ setting, path string }

// named are the files, and folders of files, that are read when a loop is made. All others are read whenever they are used: SSH keys and known
// hosts, kubeconfigs and the token files in them, secrets of push webhooks, URL, secret and token of notifications.
func (c *Config) named() []namedFile {
	var all []namedFile
	add := func(setting, path string) {
		if path != "" {
			all = append(all, namedFile{setting, path})
		}
	}
	signers := func(of string, s signersConfig) {
		add(of+".allowedSigners", s.AllowedSigners)
		add(of+".revokedKeys", s.RevokedKeys)
		for i, file := range s.OpenPGPKeys {
			add(fmt.Sprintf("%s.openPGPKeys[%d]", of, i), file)
		}
	}
	auth := func(of string, a authConfig) {
		add(of+".passwordFile", a.PasswordFile)
		add(of+".bearerTokenFile", a.BearerTokenFile)
		add(of+".caFile", a.CAFile)
	}
	auth("source.auth", c.Source.Auth)
	auth("state.auth", c.State.Auth)
	auth("agent.auth", c.Agent.Auth)
	signers("source.verify", c.Source.Verify.signersConfig)
	signers("state.verify", c.State.Verify.signersConfig)
	add("state.signingKey", c.State.SigningKey)
	add("state.signingKeyPassphraseFile", c.State.SigningKeyPassphraseFile)
	add("state.secretKeyFile", c.State.SecretKeyFile)
	add("management.kubeconfig", c.Management.Kubeconfig)
	for i, n := range c.Notifications {
		add(fmt.Sprintf("notifications[%d].caFile", i), n.CAFile)
	}
	for i, d := range c.Decryption {
		for j, path := range d.Keys {
			add(fmt.Sprintf("decryption[%d].keys[%d]", i, j), path) // which may be a folder
		}
	}
	return all
}
