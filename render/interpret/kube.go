package interpret

import (
	"encoding/json"
	"fmt"
	"math"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/api/resource"
)

// kube is the module that scripts get by require("kube").
func (m *machine) kube() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"resourceAdd":             m.resourceAdd,
		"accuratePodRequirements": m.accuratePodRequirements,
		"getPodDependencies":      m.getPodDependencies,
		"getResourceQuantity":     m.getResourceQuantity,
	}
}

// quantityArgument reads a quantity; nil is 0.
func (m *machine) quantityArgument(n int) resource.Quantity {
	var v any
	switch arg := m.state.Get(n).(type) {
	case *lua.LNilType:
	case lua.LString:
		v = m.argument(n)
	case lua.LNumber:
		v = float64(arg)
	default:
		m.state.RaiseError("bad argument #%d (quantity expected, got %s)", n, arg.Type())
	}
	q, err := quantity(v)
	m.must(err)
	return q
}

// resourceAdd is the sum of its arguments as a quantity.
func (m *machine) resourceAdd(l *lua.LState) int {
	var sum resource.Quantity
	for n := 1; n <= l.GetTop(); n++ {
		m.spend(10)
		sum.Add(m.quantityArgument(n))
	}
	l.Push(lua.LString(sum.String()))
	return 1
}

// getResourceQuantity is a quantity as a number.
func (m *machine) getResourceQuantity(l *lua.LState) int {
	q := m.quantityArgument(1)
	m.spend(10)
	n := q.AsApproximateFloat64()
	if n < 0 || math.IsInf(n, 0) || math.IsNaN(n) {
		l.RaiseError("quantity %s is negative or too large", q.String())
	}
	l.Push(lua.LNumber(n))
	return 1
}

// template reads a pod template argument.
func (m *machine) template() map[string]any {
	table := m.state.CheckTable(1)
	left := m.bytes
	value, err := m.result(table)
	m.must(err)
	m.spend((left - m.bytes) >> 4) // reading takes time as well as memory
	return object(value)
}

// accuratePodRequirements is what a pod of the template asks for.
func (m *machine) accuratePodRequirements(l *lua.LState) int {
	if l.GetTop() != 1 {
		l.RaiseError("accuratePodRequirements takes one argument, the pod template")
	}
	m.spend(100)
	requirements, err := podRequirements(m.template())
	m.must(err)
	if requirements == nil {
		l.Push(lua.LNil)
		return 1
	}
	m.pushed(requirements)
	return 1
}

// getPodDependencies lists what a pod of the template needs.
func (m *machine) getPodDependencies(l *lua.LState) int {
	if l.GetTop() != 2 {
		l.RaiseError("getPodDependencies takes two arguments, the pod template and the namespace")
	}
	m.spend(100)
	refs := podReferences(object(m.template()["spec"]), l.OptString(2, "default"))
	if len(refs) == 0 {
		l.Push(l.NewTable())
		return 1
	}
	m.pushed(refs)
	return 1
}

// pushed gives a value of ours to the script in its JSON form.
func (m *machine) pushed(v any) {
	text, err := json.Marshal(v)
	var value any
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		m.must(fmt.Errorf("convert %T: %w", v, err))
	}
	m.must(m.take(4 * len(text)))
	m.spend(len(text) >> 2)
	m.state.Push(m.value(value))
}
