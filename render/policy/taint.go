package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Cordoned is the taint of a cluster that nothing new goes to because a person says so.
var Cordoned = corev1.Taint{Key: "cluster.karmada.io/unschedulable", Effect: corev1.TaintEffectNoSchedule}

// TaintChange is what "kubectl taint" takes: taints that come, and taints that go by key and effect, or by key alone
// where the effect is empty.
type TaintChange struct {
	Add, Remove []corev1.Taint
	// Overwrite lets a taint come where there is one of its key and effect.
	Overwrite bool
}

// ParseTaintChange reads key=value:Effect, key:Effect, key=value:Effect-, key:Effect- and key-. All mistakes come at
// once.
func ParseTaintChange(specs []string) (TaintChange, error) {
	var c TaintChange
	var errs []error
	for _, spec := range specs {
		t, remove, err := parseTaint(spec)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", spec, err))
		case remove:
			c.Remove = append(c.Remove, t)
		case slices.ContainsFunc(c.Add, func(a corev1.Taint) bool { return a.MatchTaint(&t) }):
			errs = append(errs, fmt.Errorf("%s: %s:%s is given twice", spec, t.Key, t.Effect))
		default:
			c.Add = append(c.Add, t)
		}
	}
	for _, t := range c.Add {
		if slices.ContainsFunc(c.Remove, func(r corev1.Taint) bool { return removes(r, t) }) {
			errs = append(errs, fmt.Errorf("%s: is to come and to go at once", t.ToString()))
		}
	}
	if len(specs) == 0 {
		errs = append(errs, errors.New("at least one taint is needed, as key=value:Effect, or as key:Effect- or key- to remove it"))
	}
	return c, errors.Join(errs...)
}

func parseTaint(spec string) (t corev1.Taint, remove bool, err error) {
	text, remove := strings.CutSuffix(spec, "-")
	rest, effect, hasEffect := strings.Cut(text, ":")
	key, value, hasValue := strings.Cut(rest, "=")
	t = corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return t, remove, fmt.Errorf("key %q: %s", key, strings.Join(problems, "; "))
	}
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		return t, remove, fmt.Errorf("value %q: %s", value, strings.Join(problems, "; "))
	}
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute}
	switch {
	case remove && !hasEffect && !hasValue:
	case !hasEffect:
		return t, remove, errors.New("has no effect; write key=value:NoSchedule or key=value:NoExecute")
	case !slices.Contains(effects, t.Effect):
		return t, remove, fmt.Errorf("effect %q is neither NoSchedule nor NoExecute, which are those of clusters", effect)
	}
	return t, remove, nil
}

// removes tells whether what is to go is t, whatever its value.
func removes(r, t corev1.Taint) bool {
	return r.Key == t.Key && (r.Effect == "" || r.Effect == t.Effect)
}

// Apply returns the taints after the change, those that stay in their order. Removing what is not there, and adding
// what is without Overwrite, are errors.
func (c TaintChange) Apply(old []corev1.Taint) ([]corev1.Taint, error) {
	next := slices.Clone(old)
	var errs []error
	for _, r := range c.Remove {
		n := len(next)
		next = slices.DeleteFunc(next, func(t corev1.Taint) bool { return removes(r, t) })
		if len(next) == n {
			name := r.Key
			if r.Effect != "" {
				name += ":" + string(r.Effect)
			}
			errs = append(errs, fmt.Errorf("taint %s not found", name))
		}
	}
	for _, t := range c.Add {
		switch i := slices.IndexFunc(next, func(n corev1.Taint) bool { return n.MatchTaint(&t) }); {
		case i < 0:
			next = append(next, t)
		case !c.Overwrite:
			errs = append(errs, fmt.Errorf("there is a taint %s already; --overwrite gives it another value", next[i].ToString()))
		default:
			next[i].Value = t.Value
		}
	}
	return next, errors.Join(errs...)
}
