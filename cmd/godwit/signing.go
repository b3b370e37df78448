package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/signature"
	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// signersConfig says where the keys of those stand who may sign.
type signersConfig struct {
	AllowedSigners string   `mapstructure:"allowedSigners"`
	OpenPGPKeys    []string `mapstructure:"openPGPKeys"`
	RevokedKeys    string   `mapstructure:"revokedKeys"`
}

func (s signersConfig) files() signature.Files {
	return signature.Files{AllowedSigners: s.AllowedSigners, OpenPGPKeys: s.OpenPGPKeys, RevokedKeys: s.RevokedKeys}
}

func (s signersConfig) given() bool { return s.AllowedSigners != "" || len(s.OpenPGPKeys) > 0 }

var fullHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// limitConfig says what a signer may change.
type limitConfig struct {
	Signer string   `mapstructure:"signer"`
	Paths  []string `mapstructure:"paths"`
}

// gate is what commits of the source have to pass; nil lets all of them in.
func (c *Config) gate(src snapshots) (*reconciler.Gate, error) {
	v := c.Source.Verify
	verify := v.Mode == "head" || v.Mode == "all" || v.Mode == "" && v.given()
	lineage := src.lineage()
	if lineage == nil {
		if verify {
			return nil, errors.New("source.verify: a folder that is read as it is on disk has no signatures; give the repository's URL as --source, or set source.verify.mode to none")
		}
		return nil, nil
	}
	g := &reconciler.Gate{Lineage: lineage, Follow: c.Source.Rewrites == "follow", All: v.Mode == "all"}
	if verify {
		signers, err := signature.Load(v.files())
		if err != nil {
			return nil, fmt.Errorf("source.verify: %w; correct source.verify.allowedSigners and source.verify.openPGPKeys, or set source.verify.mode to none", err)
		}
		g.Signers = signers
		for _, l := range v.Limits {
			g.Limits = append(g.Limits, decide.Limit{Signer: l.Signer, Paths: l.Paths})
		}
	}
	return g, nil
}

// signingKey is what commits to the state branch are signed with; nil means that they are not.
func (c *Config) signingKey() (*signature.Key, error) {
	if c.State.SigningKey == "" {
		return nil, nil
	}
	var passphrase []byte
	if file := c.State.SigningKeyPassphraseFile; file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("state.signingKeyPassphraseFile: %w", err)
		}
		passphrase = bytes.TrimRight(text, "\r\n")
	}
	key, err := signature.LoadKey(c.State.SigningKey, passphrase)
	if err != nil {
		return nil, fmt.Errorf("state.signingKey: %w", err)
	}
	return key, nil
}

// trust judges commits of the state branch; nil if nothing is said of who may sign them.
func (c *Config) trust() (*reconciler.Trust, error) {
	v := c.State.Verify
	if v.Mode == "none" || v.Mode == "" && !v.given() {
		return nil, nil
	}
	key, err := c.signingKey()
	if err != nil {
		return nil, err
	}
	t := &reconciler.Trust{Bot: c.State.Author.Email, Since: gitstate.Revision(v.Since), Enforce: v.Mode == "enforce"}
	var signers *signature.Signers
	if v.given() {
		if signers, err = signature.Load(v.files()); err != nil {
			return nil, fmt.Errorf("state.verify: %w; correct state.verify.allowedSigners and state.verify.openPGPKeys, or set state.verify.mode to none", err)
		}
	}
	if key != nil {
		signers = signers.With(t.Bot, key)
	}
	if signers == nil {
		return nil, errors.New("state.verify: no key is allowed; set state.signingKey, state.verify.allowedSigners or state.verify.openPGPKeys, or state.verify.mode to none")
	}
	t.Signers = signers
	return t, nil
}

// signer is for the options of a store.
func (c *Config) signer() (func([]byte) (string, error), error) {
	key, err := c.signingKey()
	if key == nil || err != nil {
		return nil, err
	}
	return key.Sign, nil
}
