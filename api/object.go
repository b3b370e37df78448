// Package api holds the words every other package shares: what an object is and what names it. The
// Karmada kinds are in its subpackages, their one written form in api/canonical.
package api

import (
	"cmp"
	"strings"
)

// Object is one Kubernetes object as JSON-shaped values: map[string]any, []any, string, bool,
// int64, float64 and nil. Objects are shared freely and so are never changed in place: a change
// copies the path that leads to it.
type Object = map[string]any

// ID names an object. Group is empty for the core group, Namespace for cluster-scoped objects.
type ID struct {
	Group     string
	Version   string
	Kind      string
	Namespace string
	Name      string
}

// IDOf reads the identity of o; what is missing or no string is empty.
func IDOf(o Object) ID {
	id := ID{Kind: text(o["kind"])}
	id.Group, id.Version = SplitAPIVersion(text(o["apiVersion"]))
	if meta, ok := o["metadata"].(map[string]any); ok {
		id.Namespace, id.Name = text(meta["namespace"]), text(meta["name"])
	}
	return id
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// SplitAPIVersion splits "apps/v1" into "apps" and "v1", and "v1" into "" and "v1".
func SplitAPIVersion(apiVersion string) (group, version string) {
	if group, version, ok := strings.Cut(apiVersion, "/"); ok {
		return group, version
	}
	return "", apiVersion
}

// APIVersion is the field as manifests carry it.
func (id ID) APIVersion() string {
	if id.Group == "" {
		return id.Version
	}
	return id.Group + "/" + id.Version
}

// String is how people name the object: "Deployment default/web", "ClusterRole admin".
func (id ID) String() string {
	if id.Namespace == "" {
		return id.Kind + " " + id.Name
	}
	return id.Kind + " " + id.Namespace + "/" + id.Name
}

// Unversioned is the identity with which two versions of one object are the same object.
func (id ID) Unversioned() ID {
	id.Version = ""
	return id
}

// Compare orders by group, version, kind, namespace and name.
func (id ID) Compare(other ID) int {
	return cmp.Or(
		cmp.Compare(id.Group, other.Group),
		cmp.Compare(id.Version, other.Version),
		cmp.Compare(id.Kind, other.Kind),
		cmp.Compare(id.Namespace, other.Namespace),
		cmp.Compare(id.Name, other.Name),
	)
}
