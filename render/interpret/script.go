package interpret

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
	corev1 "k8s.io/api/core/v1"

	"github.com/godwit-gitops/godwit/api"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// maxScript is how long a script may be, in bytes. The longest that Karmada ships has some 15,000.
const maxScript = 256 << 10

// chunkName is how positions in a script begin, "script:12:".
const chunkName = "script"

// script is Lua source compiled once. It is never changed and serves many machines at a time.
type script struct {
	name    string // of the customization, or of the file we ship
	field   string // of spec.customizations; empty for a script we ship
	shipped bool
	proto   *lua.FunctionProto
}

// ScriptError says that a rule written in Lua gave no answer. Callers find it with errors.As.
type ScriptError struct {
	// Customization is the name; for a rule that godwit ships it is "built-in" and a file name.
	Customization string
	// Field is the member of spec.customizations with the script; empty for what godwit ships.
	Field string
	// Function is the one that was called.
	Function string
	// Line counts from 1 within the script; 0 where no line is at fault.
	Line int
	// Reason says what went wrong.
	Reason string
}

func (e *ScriptError) Error() string {
	where := whose(e.Customization, e.Field)
	if e.Line > 0 {
		return fmt.Sprintf("%s: %s: line %d: %s", where, e.Function, e.Line, e.Reason)
	}
	return fmt.Sprintf("%s: %s: %s", where, e.Function, e.Reason)
}

// whose names the script of a customization; one that is shipped has no field.
func whose(customization, field string) string {
	if field == "" {
		return customization
	}
	return "customization " + customization
}

func (s *script) where() string { return whose(s.name, s.field) }

type compileError struct {
	line    int
	message string
}

// compile parses a script and puts guards on what could use more memory or time than the count of
// its steps tells.
func compile(name, field, source string) (s *script, failure *compileError) {
	if len(source) > maxScript {
		return nil, &compileError{0, fmt.Sprintf("the script has %d bytes, at most %d are allowed", len(source), maxScript)}
	}
	defer func() {
		if cause := recover(); cause != nil {
			s, failure = nil, &compileError{0, fmt.Sprintf("the script does not compile: %v", cause)}
		}
	}()
	chunk, err := parse.Parse(strings.NewReader(source), chunkName)
	if err != nil {
		var syntax *parse.Error
		if !errors.As(err, &syntax) {
			return nil, &compileError{0, "the script does not compile: " + err.Error()}
		}
		if syntax.Pos.Line == parse.EOF {
			return nil, &compileError{strings.Count(strings.TrimRight(source, "\n"), "\n") + 1, "the script does not compile: it ends in the middle of a statement"}
		}
		return nil, &compileError{syntax.Pos.Line, fmt.Sprintf("the script does not compile: %s near %q", strings.TrimSpace(syntax.Message), syntax.Token)}
	}
	chunk, failure = guarded(chunk)
	if failure != nil {
		return nil, failure
	}
	proto, err := lua.Compile(chunk, chunkName)
	if err != nil {
		failure = &compileError{0, "the script does not compile: " + err.Error()}
		var refused *lua.CompileError
		if errors.As(err, &refused) {
			failure = &compileError{refused.Line, "the script does not compile: " + refused.Message}
		}
		return nil, failure
	}
	return &script{name: name, field: field, proto: proto}, nil
}

// position takes "script:12: message" apart.
func position(message string) (line int, rest string) {
	after, ok := strings.CutPrefix(message, chunkName+":")
	if !ok {
		return 0, message
	}
	number, rest, ok := strings.Cut(after, ":")
	line, err := strconv.Atoi(number)
	if !ok || err != nil {
		return 0, message
	}
	return line, strings.TrimSpace(rest)
}

// call runs the script from the start, calls the function it defines and hands over the results
// while they are still good. All errors are of type *ScriptError.
func (s *script) call(function string, results int, use func(*machine, []lua.LValue) error, arguments ...any) error {
	m := machines.Get().(*machine)
	var shown []any
	m.veil, shown = veiled(arguments)
	err := m.run(s, function, results, use, shown)
	if err == nil {
		m.veil = nil
		machines.Put(m) // one that failed may be in any state and is thrown away
		return nil
	}
	failure := &ScriptError{Customization: s.name, Field: s.field, Function: function}
	var thrown *lua.ApiError
	switch {
	case !errors.As(err, &thrown):
		failure.Reason = err.Error()
	case thrown.Object == nil:
		failure.Line, failure.Reason = position(thrown.Error())
	case thrown.Object.Type() == lua.LTString:
		failure.Line, failure.Reason = position(thrown.Object.String())
	default:
		failure.Reason = fmt.Sprintf("the script raised a %s value as error", thrown.Object.Type())
	}
	if m.exhausted != "" {
		failure.Reason = m.exhausted
	}
	if m.exhausted == "" && slices.ContainsFunc(arguments, isSecret) {
		failure.Reason = "the script failed; what it says is not shown, since the object is a Secret"
	}
	failure.Reason = oneLine(failure.Reason, 1000)
	return failure
}

// isSecret holds for Secrets.
func isSecret(argument any) bool {
	o, ok := argument.(api.Object)
	id := api.IDOf(o)
	return ok && id.Group == "" && id.Kind == "Secret"
}

// defines reports whether running the script leaves the function behind.
func (s *script) defines(function string) *ScriptError {
	m := machines.Get().(*machine)
	err := m.load(s, function)
	if err == nil {
		m.state.SetTop(0)
		machines.Put(m)
		return nil
	}
	err = s.call(function, 0, nil)
	var failure *ScriptError
	errors.As(err, &failure)
	return failure
}

func (s *script) health(live api.Object) (healthy bool, err error) {
	err = s.call("InterpretHealth", 1, func(_ *machine, got []lua.LValue) error {
		answer, ok := got[0].(lua.LBool)
		if !ok {
			return wrongType("a boolean", got[0])
		}
		healthy = bool(answer)
		return nil
	}, live)
	return healthy, err
}

func (s *script) replicas(o api.Object) (Replicas, error) {
	out := Replicas{Workload: true}
	err := s.call("GetReplicas", 2, func(m *machine, got []lua.LValue) error {
		n, err := replicaCount(got[0])
		if err != nil {
			return err
		}
		out.Count = n
		out.Requirements, err = decoded[*workv1alpha2.ReplicaRequirements](m, got[1], "the requirement")
		return err
	}, o)
	return out, err
}

func (s *script) components(o api.Object) (components []workv1alpha2.Component, err error) {
	err = s.call("GetComponents", 1, func(m *machine, got []lua.LValue) error {
		components, err = decoded[[]workv1alpha2.Component](m, got[0], "the list of components")
		if err != nil {
			return err
		}
		return checkComponents(components)
	}, o)
	if err != nil {
		return nil, err
	}
	return components, nil
}

// checkComponents looks at what names and numbers must be.
func checkComponents(components []workv1alpha2.Component) error {
	seen := make(map[string]bool, len(components))
	for n, c := range components {
		switch {
		case c.Name == "":
			return fmt.Errorf("component %d has no name", n+1)
		case seen[c.Name]:
			return fmt.Errorf("two components are named %q", c.Name)
		case c.Replicas < 0:
			return fmt.Errorf("component %q has %d replicas", c.Name, c.Replicas)
		}
		seen[c.Name] = true
	}
	return nil
}

func (s *script) revise(o api.Object, replicas int32) (revised api.Object, err error) {
	err = s.call("ReviseReplica", 1, func(m *machine, got []lua.LValue) error {
		revised, err = m.answer(got[0])
		return err
	}, o, int64(replicas))
	return revised, err
}

func (s *script) retain(desired, live api.Object) (retained api.Object, err error) {
	err = s.call("Retain", 1, func(m *machine, got []lua.LValue) error {
		retained, err = m.answer(got[0])
		return err
	}, desired, live)
	return retained, err
}

func (s *script) status(live api.Object) (status api.Object, err error) {
	err = s.call("ReflectStatus", 1, func(m *machine, got []lua.LValue) error {
		status, err = m.resultObject(got[0])
		return err
	}, live)
	return status, err
}

// aggregate takes the status of the object that the script returns and leaves the rest of the
// template as it is.
func (s *script) aggregate(template api.Object, items []StatusItem) (aggregated api.Object, err error) {
	in := make([]any, len(items))
	for n, item := range items {
		entry := map[string]any{"clusterName": item.Cluster, "applied": item.Applied}
		if item.Status != nil {
			entry["status"] = item.Status
		}
		if item.AppliedMessage != "" {
			entry["appliedMessage"] = item.AppliedMessage
		}
		if item.Health != "" {
			entry["health"] = string(item.Health)
		}
		in[n] = entry
	}
	err = s.call("AggregateStatus", 1, func(m *machine, got []lua.LValue) error {
		result, ok := got[0].(*lua.LTable)
		if !ok {
			return wrongType("the object as a table", got[0])
		}
		status := result.RawGetString("status")
		if status == lua.LNil {
			aggregated = template
			return nil
		}
		value, err := m.resultObject(status)
		if err != nil {
			return err
		}
		aggregated = with(template, value, "status")
		return nil
	}, template, in)
	return aggregated, err
}

func (s *script) dependencies(o api.Object) (refs []Reference, err error) {
	err = s.call("GetDependencies", 1, func(m *machine, got []lua.LValue) error {
		if _, ok := got[0].(*lua.LTable); !ok {
			return wrongType("a list of references", got[0])
		}
		refs, err = decoded[[]Reference](m, got[0], "the list of references")
		return err
	}, o)
	return refs, err
}

func wrongType(want string, got lua.LValue) error {
	return fmt.Errorf("the function must return %s, it returned a %s value", want, got.Type())
}

func replicaCount(v lua.LValue) (int32, error) {
	n, ok := v.(lua.LNumber)
	if !ok {
		return 0, wrongType("the number of replicas first", v)
	}
	whole := math.Trunc(float64(n))
	if !(whole >= 0 && whole <= math.MaxInt32) {
		return 0, fmt.Errorf("the function returned %v as number of replicas, it must be from 0 to %d", n, math.MaxInt32)
	}
	return int32(whole), nil
}

// decoded reads a result into a type of ours; nil is the type's zero value. It is for answers that
// are asked once per template, so the detour over JSON does not matter.
func decoded[T any](m *machine, v lua.LValue, what string) (out T, err error) {
	if v == lua.LNil {
		return out, nil
	}
	table, ok := v.(*lua.LTable)
	if !ok {
		return out, wrongType(what+" as a table", v)
	}
	value, err := m.result(table)
	if err != nil || empty(value) {
		return out, err
	}
	err = checkRequests(value)
	var text []byte
	if err == nil {
		text, err = json.Marshal(value)
	}
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		var zero T
		return zero, fmt.Errorf("%s that the function returned is not well formed: %w", what, err)
	}
	return out, nil
}

// checkRequests looks at each resourceRequest before its quantities are parsed for good.
func checkRequests(v any) error {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			if err := checkRequests(element); err != nil {
				return err
			}
		}
	case map[string]any:
		if _, err := resources(v["resourceRequest"], "resourceRequest", corev1.ResourceList{}); err != nil {
			return err
		}
		return checkRequests(v["replicaRequirements"])
	}
	return nil
}
