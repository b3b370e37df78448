package member

import (
	"maps"
	"slices"
)

// Contexts are the names of all contexts, sorted. Files that cannot be read have none.
func (k *Kubeconfig) Contexts() []string {
	merged, err := k.load()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(merged.Contexts))
}
