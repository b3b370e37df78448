package manifest

import (
	"regexp"
	"strings"

	"github.com/godwit-gitops/godwit/api"
)

// Role is what an object in the source is there for.
type Role int

const (
	// Ignored objects are read and go nowhere.
	Ignored Role = iota
	// Template is what policies send to members.
	Template
	// Policy is a kind of policy.karmada.io.
	Policy
	// Cluster registers a member.
	Cluster
	// Interpreter is a kind of config.karmada.io: what other kinds mean.
	Interpreter
	// Rebalancer is a kind of apps.karmada.io: an order to schedule again.
	Rebalancer
)

// roles of the groups that are no templates. Karmada's other groups have none.
var roles = map[string]Role{
	"apps.karmada.io":        Rebalancer,
	"autoscaling.karmada.io": Ignored,
	"cluster.karmada.io":     Cluster,
	"config.karmada.io":      Interpreter,
	"networking.karmada.io":  Ignored,
	"policy.karmada.io":      Policy,
	"remedy.karmada.io":      Ignored,
	"work.karmada.io":        Ignored,

	"coordination.k8s.io": Ignored,
	"events.k8s.io":       Ignored,
}

// Karmada tells whether the API group is one of Karmada's.
func Karmada(group string) bool { return strings.HasSuffix(group, ".karmada.io") }

// reserved are the namespaces whose objects never are templates.
var reserved = regexp.MustCompile(`^(karmada-system|karmada-cluster|karmada-es-.*|kube-.*)$`)

// RoleOf is the role of an object.
func RoleOf(o *Object) Role {
	if role, ok := roles[o.Group]; ok {
		return role
	}
	if !Propagates(o.ID) {
		return Ignored
	}
	return Template
}

// Propagates tells whether an object of this name can be a template. Its labels may still keep
// policies away from it.
func Propagates(id api.ID) bool {
	if _, ok := roles[id.Group]; ok {
		return false
	}
	return !(id.Group == "" && id.Kind == "Event") && !reserved.MatchString(id.Namespace)
}
