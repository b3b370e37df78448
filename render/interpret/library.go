package interpret

import (
	"math"
	"math/bits"
	"regexp"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// refused are what Karmada's scripts may not use either.
var refused = map[string][]string{
	"_G": {
		"collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "module",
		"newproxy", "rawequal", "rawget", "rawset", "setfenv", "setmetatable",
	},
	"string": {"gsub", "rep", "dump"},
	// Differs from Karmada: there math is whole. Rules must give the same answer each time.
	"math": {"random", "randomseed"},
}

// taken are the functions of the Lua library that are harmless as they are.
var taken = map[string][]string{
	"_G":     {"assert", "error", "select", "type", "unpack", "ipairs"},
	"string": {"byte", "char", "len", "sub"},
	"math": {
		"abs", "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "deg", "exp", "floor", "fmod", "frexp", "ldexp",
		"log", "log10", "max", "min", "mod", "modf", "pi", "huge", "pow", "rad", "sin", "sinh", "sqrt", "tan", "tanh",
	},
}

// open fills a new machine. The functions close over it, to charge for what they do.
func (m *machine) open() {
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenString, lua.OpenTable, lua.OpenMath} {
		open(m.state)
	}
	m.state.SetTop(0)
	std := func(module, name string) lua.LValue {
		return m.state.GetGlobal(module).(*lua.LTable).RawGetString(name)
	}
	original := func(module, name string) lua.LGFunction { return std(module, name).(*lua.LFunction).GFunction }

	made := map[string]map[string]lua.LGFunction{
		"_G": {
			"next":     m.next,
			"pairs":    m.pairs,
			"pcall":    m.protected(original("_G", "pcall")),
			"xpcall":   m.protected(original("_G", "xpcall")),
			"print":    func(*lua.LState) int { return 0 }, // there is nobody to read it
			"require":  m.require,
			"tonumber": m.perByte(original("_G", "tonumber")),
			"tostring": m.tostring,
		},
		"string": {
			"find":    m.find,
			"match":   m.match,
			"gmatch":  m.gmatch,
			"gfind":   m.gmatch,
			"format":  m.format(original("string", "format")),
			"lower":   m.perByte(original("string", "lower")),
			"upper":   m.perByte(original("string", "upper")),
			"reverse": m.perByte(original("string", "reverse")),
		},
		"table": {
			"concat": m.join,
			"insert": m.insert,
			"remove": m.remove,
			"sort":   m.sort(original("table", "sort")),
			"getn":   m.length,
			"maxn":   m.length,
		},
		"os":   {"time": m.time, "date": m.date},
		"kube": m.kube(),
		"math": {},
	}
	libraries := make(map[string]library, len(made))
	for module, functions := range made {
		var entries library
		for name, function := range functions {
			entries = append(entries, entry{name, m.state.NewFunction(function)})
		}
		for _, name := range taken[module] {
			value := std(module, name)
			if function, ok := value.(*lua.LFunction); ok && module == "math" {
				value = m.state.NewFunction(m.numeric(function.GFunction))
			}
			entries = append(entries, entry{name, value})
		}
		for _, name := range refused[module] {
			entries = append(entries, entry{name, m.state.NewFunction(refuse(module, name))})
		}
		libraries[module] = entries
	}

	shared := libraries["_G"].table(m.state)
	shared.RawSetString("_VERSION", lua.LString(lua.LuaVersion))
	lookUp := m.state.NewTable()
	lookUp.RawSetString("__index", m.state.NewFunction(m.global))
	shared.Metatable = lookUp
	m.builtin = m.state.NewTable()
	m.builtin.RawSetString("__index", shared)

	methods := m.state.NewTable()
	methods.RawSetString("__index", libraries["string"].table(m.state))
	m.state.SetMetatable(lua.LString(""), methods)

	m.modules = map[string]library{"kube": libraries["kube"]}
	delete(libraries, "kube")
	delete(libraries, "_G")
	m.libraries = libraries
	m.loaded = make(map[string]lua.LValue)
	m.step = shared.RawGetString("next")
	for _, guard := range []lua.LGFunction{m.concat, m.length, m.assign, m.create, m.constructorKey, m.scanned} {
		m.guards = append(m.guards, m.state.NewFunction(guard))
	}
}

func (l library) table(state *lua.LState) *lua.LTable {
	t := state.CreateTable(0, len(l))
	for _, e := range l {
		t.RawSetString(e.name, e.value)
	}
	return t
}

func refuse(module, name string) lua.LGFunction {
	if module != "_G" {
		name = module + "." + name
	}
	return func(l *lua.LState) int {
		l.RaiseError("%s is not available to rules", name)
		return 0
	}
}

// global gives the call its own copy of a library when it first asks for one.
func (m *machine) global(l *lua.LState) int {
	name := l.CheckString(2)
	entries, ok := m.libraries[name]
	if !ok {
		l.Push(lua.LNil)
		return 1
	}
	t := entries.table(l)
	m.globals.RawSetString(name, t)
	l.Push(t)
	return 1
}

// require knows the modules that are compiled in, and no files.
func (m *machine) require(l *lua.LState) int {
	name := l.CheckString(1)
	if loaded, ok := m.loaded[name]; ok {
		l.Push(loaded)
		return 1
	}
	if entries, ok := m.modules[name]; ok {
		m.loaded[name] = entries.table(l)
	} else if common := shippedModule(name); common != nil && m.shipped {
		m.loaded[name] = m.evaluate(common)
	} else {
		l.RaiseError("module %s does not exist: rules can only require kube", name)
	}
	l.Push(m.loaded[name])
	return 1
}

// evaluate runs a module of ours and is what it returns.
func (m *machine) evaluate(s *script) lua.LValue {
	chunk := m.state.NewFunctionFromProto(s.proto)
	chunk.Env = m.globals
	m.state.Push(chunk)
	for _, guard := range m.guards {
		m.state.Push(guard)
	}
	m.state.Call(len(m.guards), 1)
	value := m.state.Get(-1)
	m.state.Pop(1)
	return value
}

// protected is pcall or xpcall, which must not keep a script alive that has used up its budget.
func (m *machine) protected(call lua.LGFunction) lua.LGFunction {
	return func(l *lua.LState) int {
		results := call(l)
		if m.exhausted != "" {
			m.must(m.Err())
		}
		if l.Get(-results) == lua.LFalse {
			m.spend(500) // an error collects a stack trace
		}
		return results
	}
}

func (m *machine) next(l *lua.LState) int {
	m.spend(m.deletions >> 6)
	key, value := l.CheckTable(1).Next(l.Get(2))
	l.Push(key)
	if key == lua.LNil {
		return 1
	}
	l.Push(value)
	return 2
}

func (m *machine) pairs(l *lua.LState) int {
	table := l.CheckTable(1)
	l.Push(m.step)
	l.Push(table)
	l.Push(lua.LNil)
	return 3
}

// tostring names no addresses: they would be different each time.
func (m *machine) tostring(l *lua.LState) int {
	switch v := l.CheckAny(1).(type) {
	case lua.LString, lua.LNumber, lua.LBool, *lua.LNilType:
		l.Push(lua.LString(v.String()))
	default:
		l.Push(lua.LString(v.Type().String()))
	}
	return 1
}

// argument is a string argument of a function that looks at all of it.
func (m *machine) argument(n int) string {
	s := m.state.CheckString(n)
	m.scan(s)
	return s
}

func (m *machine) scan(s string) {
	if len(s) > maxText {
		m.state.RaiseError("string of more than %d bytes", maxText)
	}
	m.spend(len(s) >> 6)
}

// numeric charges for arguments that a function of numbers gets as strings.
func (m *machine) numeric(function lua.LGFunction) lua.LGFunction {
	return func(l *lua.LState) int {
		for n := 1; n <= l.GetTop(); n++ {
			if s, ok := l.Get(n).(lua.LString); ok {
				m.scan(string(s))
			}
		}
		return function(l)
	}
}

// perByte charges for what a function does with each byte of its argument, and for a result as long.
func (m *machine) perByte(function lua.LGFunction) lua.LGFunction {
	return func(l *lua.LState) int {
		if s, ok := l.Get(1).(lua.LString); ok {
			m.scan(string(s))
			m.text(len(s))
		}
		return function(l)
	}
}

// directive is what a format may hold after a %. Longer widths, and the ways that Go has beside
// Lua's, would make a string of any length.
var directive = regexp.MustCompile(`%(%|[-+ #0]{0,5}[0-9]{0,2}(\.[0-9]{0,2})?[cdioxXeEfgGqs])`)

func (m *machine) format(sprintf lua.LGFunction) lua.LGFunction {
	return func(l *lua.LState) int {
		format := m.argument(1)
		if at := strings.IndexByte(directive.ReplaceAllString(format, ""), '%'); at >= 0 {
			l.RaiseError("invalid option in format %.100q", format)
		}
		length := len(format) + 100*strings.Count(format, "%")
		for n := 2; n <= l.GetTop(); n++ {
			switch v := l.Get(n).(type) {
			case lua.LString:
				m.scan(string(v))
				length += 4 * len(v) // %q may need as much
			case lua.LNumber, lua.LBool, *lua.LNilType:
			default:
				l.RaiseError("bad argument #%d to format (string or number expected, got %s)", n, v.Type())
			}
		}
		m.text(length)
		return sprintf(l)
	}
}

// join is table.concat.
func (m *machine) join(l *lua.LState) int {
	table, separator := l.CheckTable(1), l.OptString(2, "")
	first, last := l.OptInt(3, 1), l.OptInt(4, table.Len())
	var parts []string
	length := 0
	for n := first; n <= last; n++ {
		v := table.RawGetInt(n)
		if !lua.LVCanConvToString(v) {
			l.RaiseError("invalid value (%s) at index %d in table for concat", v.Type(), n)
		}
		m.spend(1)
		parts = append(parts, v.String())
		if length += len(parts[len(parts)-1]) + len(separator); length > maxText {
			break
		}
	}
	m.text(length)
	l.Push(lua.LString(strings.Join(parts, separator)))
	return 1
}

func (m *machine) insert(l *lua.LState) int {
	table := l.CheckTable(1)
	length := table.Len()
	switch l.GetTop() {
	case 2:
		m.setPlace(table, length+1, l.Get(2))
	case 3:
		place := l.CheckInt(2)
		if place < 1 || place > length+1 {
			l.RaiseError("bad argument #2 to insert (position out of bounds)")
		}
		m.must(m.take(16))
		m.spend((length - place) >> 6)
		if l.Get(3) == lua.LNil && place > length {
			break
		}
		table.Insert(place, l.Get(3))
	default:
		l.RaiseError("wrong number of arguments to insert")
	}
	return 0
}

func (m *machine) remove(l *lua.LState) int {
	table := l.CheckTable(1)
	length := table.Len()
	place := l.OptInt(2, length)
	if place < 1 || place > length {
		l.Push(lua.LNil)
		return 1
	}
	m.spend((length - place) >> 6)
	removed := table.RawGetInt(place)
	if place == length {
		m.setPlace(table, place, lua.LNil)
	} else {
		table.Remove(place)
	}
	l.Push(removed)
	return 1
}

func (m *machine) sort(sort lua.LGFunction) lua.LGFunction {
	return func(l *lua.LState) int {
		length := l.CheckTable(1).Len()
		m.spend(length * bits.Len(uint(length)))
		return sort(l)
	}
}

// time is os.time for a given date, in UTC.
//
// Differs from Karmada: there is no present time. A rule that depends on it would give another
// answer each time it is asked, and nothing would ask it again.
func (m *machine) time(l *lua.LState) int {
	if l.GetTop() == 0 || l.Get(1) == lua.LNil {
		l.RaiseError("os.time needs a date: rules cannot see the clock")
	}
	table := l.CheckTable(1)
	part := func(name string, otherwise float64) int {
		switch v := table.RawGetString(name).(type) {
		case lua.LNumber:
			return int(max(-1e6, min(1e6, float64(v))))
		case *lua.LNilType:
			if math.IsNaN(otherwise) {
				l.RaiseError("field '%s' missing in date table", name)
			}
		}
		return int(otherwise)
	}
	missing := math.NaN()
	year, month, day := part("year", missing), part("month", missing), part("day", missing)
	date := time.Date(year, time.Month(month), day, part("hour", 12), part("min", 0), part("sec", 0), 0, time.UTC)
	l.Push(lua.LNumber(date.Unix()))
	return 1
}

// layouts are the parts of a date that os.date writes, as Go has them.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'c': "Mon Jan _2 15:04:05 2006", 'd': "02", 'H': "15",
	'I': "03", 'j': "002", 'm': "01", 'M': "04", 'p': "PM", 'S': "05", 'x': "01/02/06", 'X': "15:04:05", 'y': "06",
	'Y': "2006", 'Z': "UTC", '%': "%",
}

// date is os.date for a given time, in UTC.
func (m *machine) date(l *lua.LState) int {
	format := strings.TrimPrefix(l.OptString(1, "%c"), "!")
	if l.Get(2) == lua.LNil {
		l.RaiseError("os.date needs a time: rules cannot see the clock")
	}
	date := time.Unix(int64(max(-1e11, min(1e11, l.CheckInt(2)))), 0).UTC()
	if strings.HasPrefix(format, "*t") {
		table := l.NewTable()
		for _, field := range []struct {
			name  string
			value int
		}{
			{"year", date.Year()}, {"month", int(date.Month())}, {"day", date.Day()}, {"hour", date.Hour()}, {"min", date.Minute()},
			{"sec", date.Second()}, {"wday", int(date.Weekday()) + 1}, {"yday", date.YearDay()},
		} {
			table.RawSetString(field.name, lua.LNumber(field.value))
		}
		table.RawSetString("isdst", lua.LFalse)
		l.Push(table)
		return 1
	}
	m.scan(format)
	m.text(16 * len(format))
	var out strings.Builder
	for n := 0; n < len(format); n++ {
		if format[n] != '%' || n+1 == len(format) {
			out.WriteByte(format[n])
			continue
		}
		n++
		layout, ok := layouts[format[n]]
		if !ok {
			l.RaiseError("os.date does not know %%%c", format[n])
		}
		out.WriteString(date.Format(layout))
	}
	l.Push(lua.LString(out.String()))
	return 1
}
