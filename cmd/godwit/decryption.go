package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/godwit-gitops/godwit/gitstate/regular"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/sops"
)

// decryptionConfig gives the keys that open what SOPS encrypted in some folders of the source.
type decryptionConfig struct {
	Paths []string `mapstructure:"paths"`
	// Keys are files, or folders such as a mounted Secret with entries as Flux wants them.
	Keys []string `mapstructure:"keys"`
}

// keyEndings are those of the files in a folder that hold keys.
var keyEndings = []string{".agekey", ".asc"}

// maxKeyFile is more than any file of keys has.
const maxKeyFile = 1 << 20

// checkDecryption refuses what no command could use. Files are not read.
func (c *Config) checkDecryption() error {
	grants := make([]sops.Grant, len(c.Decryption))
	for i, d := range c.Decryption {
		if len(d.Keys) == 0 || slices.Contains(d.Keys, "") {
			return fmt.Errorf("decryption[%d].keys: is missing or has an empty name; name files with private keys of age or OpenPGP, or folders with such files (*.agekey, *.asc)", i)
		}
		grants[i].Paths = d.Paths
	}
	_, err := sops.Compile(grants, c.projects)
	return err
}

// keyring reads the keys. Those that are not on this machine are left out if here is where nobody needs them.
func (c *Config) keyring(needed bool) (*sops.Keyring, error) {
	grants := make([]sops.Grant, len(c.Decryption))
	for i, d := range c.Decryption {
		grants[i].Paths = d.Paths
		for j, path := range d.Keys {
			keys, err := readKeys(path)
			if !needed && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("decryption[%d].keys[%d]: %w", i, j, err)
			}
			grants[i].Keys = grants[i].Keys.With(keys)
		}
	}
	return sops.Compile(grants, c.projects)
}

// withKeys lets decisions that nobody carries out see what the keys that are here open.
func (c *Config) withKeys(o decide.Options) (decide.Options, error) {
	var err error
	o.Keyless = true
	o.Keys, err = c.keyring(false)
	return o, err
}

func readKeys(path string) (keys sops.Keys, err error) {
	files := []string{path}
	if isFolder(path) {
		if files, err = keyFiles(path); err != nil {
			return keys, err
		}
		if len(files) == 0 {
			return keys, fmt.Errorf("%s: has no file with keys; their names end in .agekey or .asc", path)
		}
	}
	for _, file := range files {
		text, err := regular.ReadFile(file, maxKeyFile)
		if err != nil {
			return sops.Keys{}, err
		}
		more, err := sops.ParseKeys(text)
		if err != nil {
			return sops.Keys{}, fmt.Errorf("%s: %w", file, err)
		}
		keys = keys.With(more)
	}
	return keys, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// keyFiles are the files with keys in a folder, by name. In a mounted Secret they are links.
func keyFiles(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if file := filepath.Join(dir, e.Name()); slices.Contains(keyEndings, filepath.Ext(file)) && !isFolder(file) {
			files = append(files, file)
		}
	}
	return files, nil
}
