package interpret

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// What one call may use. The limits are counted, never timed, so a script that keeps within them
// here does so everywhere. Karmada allows one second; the steps are about a quarter of that.
const (
	// maxSteps is the number of instructions, with a surcharge for library functions that take
	// longer than an instruction.
	maxSteps = 1_000_000
	// maxBytes is how much data a script may make, counting what is garbage since. Instructions
	// make some hundred bytes each at most beside it.
	maxBytes = 32 << 20
	// maxText is how long a string may be.
	maxText = 1_000_000
	// maxDepth is how deep a result may be nested.
	maxDepth = 200
)

// meter counts what a call uses. It is the context of the interpreter, which asks it before every
// instruction whether to go on.
type meter struct {
	steps, bytes int
	// weight is what one step costs: comparing or looking up long strings takes one instruction,
	// too, so where a script has them about all its steps cost more.
	weight int
	// exhausted says which limit was reached; empty means none.
	exhausted string
}

var stop = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done takes a step. The channel is nil, which the interpreter takes for "go on", or closed.
func (m *meter) Done() <-chan struct{} {
	m.steps -= m.weight
	if m.steps >= 0 {
		return nil
	}
	m.exhaust(fmt.Sprintf("the script takes too long: it used up its %d steps", maxSteps))
	return stop
}

func (m *meter) exhaust(why string) {
	if m.exhausted == "" {
		m.exhausted = why
	}
	m.steps = -1
}

func (m *meter) Err() error                  { return errors.New(m.exhausted) }
func (m *meter) Deadline() (time.Time, bool) { return time.Time{}, false }
func (m *meter) Value(any) any               { return nil }

var _ context.Context = (*meter)(nil)

// take counts bytes that are about to be used.
func (m *meter) take(bytes int) error {
	m.bytes -= bytes
	if m.bytes < 0 {
		m.exhaust(fmt.Sprintf("the script uses too much memory: it made more than %d MiB of data", maxBytes>>20))
		return m.Err()
	}
	return nil
}

// longText counts a string that the script can get hold of.
func (m *meter) longText(length int) {
	m.weight = max(m.weight, 1+length>>14)
}

// machine is one Lua interpreter. Every call gets globals and libraries of its own, so nothing that
// a script does can be seen by the next.
type machine struct {
	meter
	state *lua.LState
	// builtin is the metatable by which globals find the functions that all calls share. Scripts can
	// neither get at it nor at the table behind it.
	builtin *lua.LTable
	// libraries and modules are what globals and require give; each call copies what it uses.
	libraries, modules map[string]library
	// globals and loaded are the present call's.
	globals *lua.LTable
	loaded  map[string]lua.LValue
	shipped bool
	guards  []lua.LValue
	// step is the function that pairs hands out.
	step lua.LValue
	// deletions counts removed keys: looking for the next key passes over all of them.
	deletions int
	// veil is over the arguments of the present call.
	veil *veil
}

type library []entry

type entry struct {
	name  string
	value lua.LValue
}

// machines are pooled: making one costs more than most calls.
var machines = sync.Pool{New: func() any { return newMachine() }}

func newMachine() *machine {
	m := &machine{state: lua.NewState(lua.Options{SkipOpenLibs: true})}
	m.steps = maxSteps
	m.state.SetContext(m)
	m.open()
	return m
}

// load makes the machine fresh, runs the script and leaves the function on the stack.
func (m *machine) load(s *script, function string) error {
	m.meter = meter{steps: maxSteps, bytes: maxBytes, weight: 1}
	m.shipped, m.deletions = s.shipped, 0
	clear(m.loaded)
	m.globals = m.state.NewTable()
	m.globals.Metatable = m.builtin
	m.globals.RawSetString("_G", m.globals)

	chunk := m.state.NewFunctionFromProto(s.proto)
	chunk.Env = m.globals
	m.state.Push(chunk)
	for _, guard := range m.guards {
		m.state.Push(guard)
	}
	if err := m.state.PCall(len(m.guards), 0, nil); err != nil {
		return err
	}
	defined := m.globals.RawGetString(function)
	if defined.Type() != lua.LTFunction {
		return fmt.Errorf("the script does not define the function %s", function)
	}
	m.state.Push(defined)
	return nil
}

func (m *machine) run(s *script, function string, results int, use func(*machine, []lua.LValue) error, arguments []any) error {
	if err := m.load(s, function); err != nil {
		return err
	}
	for _, argument := range arguments {
		m.state.Push(m.value(argument))
	}
	if err := m.state.PCall(len(arguments), results, nil); err != nil {
		return err
	}
	if m.exhausted != "" {
		return m.Err()
	}
	if use != nil {
		got := make([]lua.LValue, results)
		for n := range got {
			got[n] = m.state.Get(n + 1)
		}
		if err := use(m, got); err != nil {
			return err
		}
	}
	m.state.SetTop(0)
	m.globals = nil
	return nil
}

// must raises the error in the script that is running.
func (m *machine) must(err error) {
	if err != nil {
		m.state.RaiseError("%s", err.Error())
	}
}

// spend charges for work that is done outside the interpreter's instructions.
func (m *machine) spend(steps int) {
	if m.steps -= steps; m.steps < 0 {
		m.Done()
		m.must(m.Err())
	}
}

// The guards are called in place of the operations they are named for; see guard.go.

func (m *machine) concat(l *lua.LState) int {
	length := 0
	for n := 1; n <= l.GetTop(); n++ {
		switch v := l.Get(n).(type) {
		case lua.LString:
			length += len(v)
		case lua.LNumber:
			length += 24
		default:
			l.RaiseError("attempt to concatenate a %s value", v.Type())
		}
	}
	m.text(length)
	var out strings.Builder
	out.Grow(length)
	for n := 1; n <= l.GetTop(); n++ {
		out.WriteString(l.Get(n).String())
	}
	l.Push(lua.LString(out.String()))
	return 1
}

// text charges for a string that is about to be made.
func (m *machine) text(length int) {
	if length > maxText {
		m.state.RaiseError("string of more than %d bytes", maxText)
	}
	m.must(m.take(16 + length))
	m.longText(length)
}

func (m *machine) length(l *lua.LState) int {
	switch v := l.Get(1).(type) {
	case lua.LString:
		l.Push(lua.LNumber(len(v)))
	case *lua.LTable:
		n := v.Len()
		m.spend(n >> 8)
		l.Push(lua.LNumber(n))
	default:
		l.RaiseError("attempt to get length of a %s value", v.Type())
	}
	return 1
}

func (m *machine) create(l *lua.LState) int {
	table := l.CheckTable(1)
	m.must(m.take(256 + 16*table.Len()))
	l.SetTop(1)
	return 1
}

// constructorKey: a key that is a number makes the list as long as it says.
func (m *machine) constructorKey(l *lua.LState) int {
	if n, ok := l.Get(1).(lua.LNumber); ok && n > 1 {
		m.must(m.take(16 * int(min(n, maxBytes))))
	}
	l.SetTop(1)
	return 1
}

func (m *machine) scanned(l *lua.LState) int {
	if s, ok := l.Get(1).(lua.LString); ok {
		m.spend(len(s) >> 6)
	}
	l.SetTop(1)
	return 1
}

func (m *machine) assign(l *lua.LState) int {
	table, ok := l.Get(1).(*lua.LTable)
	if !ok {
		l.RaiseError("attempt to index a %s value", l.Get(1).Type())
	}
	m.set(table, l.Get(2), l.Get(3))
	return 0
}

// set keeps lists free of empty places at their end, so that their length is known at once, and
// pays for the places that it fills up before a far one.
func (m *machine) set(table *lua.LTable, key, value lua.LValue) {
	switch k := key.(type) {
	case *lua.LNilType:
		m.state.RaiseError("table index is nil")
	case lua.LNumber:
		if k != k {
			m.state.RaiseError("table index is NaN")
		}
		if place := int(k); k >= 1 && k < lua.LNumber(lua.MaxArrayIndex) && lua.LNumber(place) == k {
			m.setPlace(table, place, value)
			return
		}
	}
	m.must(m.take(96))
	if value == lua.LNil {
		m.deletions++
	}
	table.RawSet(key, value)
}

func (m *machine) setPlace(table *lua.LTable, place int, value lua.LValue) {
	length := table.Len()
	switch {
	case value != lua.LNil:
		gap := max(0, place-length-1)
		m.must(m.take(16 * (gap + 1)))
		m.spend(gap >> 6)
		table.RawSetInt(place, value)
	case place < length:
		m.deletions++
		table.RawSetInt(place, lua.LNil)
	case place == length:
		table.Remove(length)
		for length--; length > 0 && table.RawGetInt(length) == lua.LNil; length-- {
			table.Remove(length)
		}
	}
}
