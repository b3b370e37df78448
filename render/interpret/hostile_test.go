package interpret

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/api"
	configv1alpha1 "github.com/godwit-gitops/godwit/api/config/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

func healthRule(script string) configv1alpha1.CustomizationRules {
	return configv1alpha1.CustomizationRules{HealthInterpretation: &configv1alpha1.LuaRule{LuaScript: script}}
}

// TestHostileScriptsEndInsideTheirBudget: every script below is stopped and says why; the memory it
// can use on the way is bounded, too.
func TestHostileScriptsEndInsideTheirBudget(t *testing.T) {
	const (
		tooLong   = "takes too long"
		tooMuch   = "too much memory"
		overflow  = "stack overflow"
		forbidden = "is not available to rules"
	)
	for _, tt := range []struct{ name, body, want string }{
		{"endless loop", `while true do end`, tooLong},
		{"endless repeat", `repeat until false`, tooLong},
		{"endless goto", `::again:: goto again`, tooLong},
		{"endless loop in pcall", `while true do pcall(function() while true do end end) end`, tooLong},
		{"endless loop in pcall in pcall", `local function f() pcall(f) while true do end end f()`, tooLong},
		{"endless errors", `while true do pcall(error, "x") end`, tooLong},
		{"error handler that never ends", `xpcall(error, function() while true do end end)`, tooLong},
		{"recursion", `local function f() return 1 + f() end f()`, overflow},
		{"recursion through tail calls", `local function f() return f() end f()`, tooLong},
		{"mutual recursion", `local a, b function a() return 1 + b() end function b() return 1 + a() end a()`, overflow},
		{"recursion in the comparison of a sort", `local t = {3, 2, 1} local function f(a, b) table.sort(t, f) return a < b end f(1, 2)`, overflow},
		{"string that doubles", `local s = "x" while true do s = s .. s end`, "more than 1000000 bytes"},
		{"many long strings", `local t, s = {}, ("x"):upper() for i = 1, 19 do s = s .. s end while true do t[#t + 1] = s .. #t end`, tooMuch},
		{"strings by format", `local s = ("x"):upper() for i = 1, 15 do s = s .. s end while true do s2 = string.format("%s%s%s%s", s, s, s, s) end`, tooMuch},
		{"wide format", `string.format("%999999999d", 1)`, "invalid option"},
		{"format by position", `string.format("%[1]s", "x")`, "invalid option"},
		{"join of one string many times", `local s, t = ("x"):upper(), {} for i = 1, 15 do s = s .. s end for i = 1, 1000 do t[i] = s end table.concat(t)`, "more than 1000000 bytes"},
		{"table that grows", `local t = {} while true do t[#t + 1] = {} end`, tooLong},
		{"table that grows by names", `local t, n = {}, 0 while true do n = n + 1 t["k" .. n] = n end`, tooLong},
		{"table that grows by booleans and tables as keys", `local t = {} while true do t[{}] = true end`, tooMuch},
		{"table that grows by insert", `local t = {} while true do table.insert(t, 1) end`, tooLong},
		{"one far element", `local t = {} t[60000000] = 1`, tooMuch},
		{"one far element in a constructor", `local t = {[60000000] = 1}`, tooMuch},
		{"one far element by insert", `local t = {} table.insert(t, 60000000, 1)`, "out of bounds"},
		{"one far element in a list of assignments", `local t, x = {} x, t[60000000] = 1, 2`, tooMuch},
		{"many far elements", `local all = {} for i = 1, 1000000 do local t = {} t[60000] = 1 all[i] = t end`, tooMuch},
		{"length of a list that was emptied", `local t = {} for i = 1, 50000 do t[i] = i end for i = 1, 50000 do t[i] = nil end while true do local n = #t end`, tooLong},
		{"next in a table that was emptied", `local t = {} for i = 1, 20000 do t["k" .. i] = i end for i = 1, 20000 do t["k" .. i] = nil end while true do next(t) end`, tooLong},
		{"unpack of a long list", `local t = {} for i = 1, 10000 do t[i] = i end local f = function(...) end f(unpack(t))`, "registry overflow"},
		{"unpack of nothing", `unpack({}, 1, 100000000)`, "registry overflow"},
		{"bytes of a long string", `local s = ("x"):upper() for i = 1, 15 do s = s .. s end local f = function(...) end f(s:byte(1, -1))`, "registry overflow"},
		{"pattern with many ways", `local s = ("a"):upper() for i = 1, 15 do s = s .. s end string.find(s, "A*A*A*A*A*A*B")`, tooLong},
		{"pattern with many ways by shortest match", `local s = ("a"):upper() for i = 1, 15 do s = s .. s end string.match(s, "(.-)(.-)(.-)(.-)B")`, tooLong},
		{"pattern that nests", `string.find("x", ("("):upper() .. ("(" .. "(") .. "(((((((((((((((((((((((((((((((((((((((")`, "too many captures"},
		{"gmatch without end", `while true do for w in string.gmatch("a b c", "%a") do end end`, tooLong},
		{"comparison of long strings", `local a, b = "x", "x" for i = 1, 19 do a = a .. a b = b .. b end a = a .. "1" b = b .. "2" while true do local c = a < b end`, tooLong},
		{"long keys", `local a, t = "x", {} for i = 1, 19 do a = a .. a end while true do local c = t[a] end`, tooLong},
		{"case of long strings", `local a = "x" for i = 1, 19 do a = a .. a end while true do a:lower() end`, tooMuch},
		{"numbers in long strings", `local a = "1" for i = 1, 19 do a = a .. a end while true do tonumber(a) end`, tooMuch},
		{"quantity of a million digits", `local kube, a = require("kube"), "1" for i = 1, 19 do a = a .. a end while true do pcall(kube.resourceAdd, a, a) end`, tooLong},
		{"arithmetic with long strings", `local a = "0" for i = 1, 19 do a = a .. a end while true do local b = 1 - a end`, tooLong},
		{"negation of long strings", `local a = "0" for i = 1, 19 do a = a .. a end while true do local b = -a end`, tooLong},
		{"loops from long strings", `local a = "0" for i = 1, 19 do a = a .. a end while true do for i = a, 0 do end end`, ""},
		{"mathematics of long strings", `local a = "0" for i = 1, 19 do a = a .. a end while true do math.floor(a) end`, tooLong},
		{"sort that takes long", `local t = {} for i = 1, 50000 do t[i] = 50000 - i end while true do table.sort(t) end`, tooLong},
		{"sort without order", `local t = {} for i = 1, 1000 do t[i] = i end while true do table.sort(t, function() return true end) end`, tooLong},

		{"load", `load(function() return "x = 1" end)`, forbidden},
		{"loadstring", `loadstring("x = 1")()`, forbidden},
		{"loadfile", `loadfile("/etc/passwd")`, forbidden},
		{"dofile", `dofile("/etc/passwd")`, forbidden},
		{"setmetatable", `setmetatable({}, {__index = function() while true do end end})`, forbidden},
		{"getmetatable", `getmetatable("").__index.find = 1`, forbidden},
		{"metatable of the globals", `getmetatable(_G)`, forbidden},
		{"rawset", `rawset(_G, "x", 1)`, forbidden},
		{"rawget", `rawget(_G, "x")`, forbidden},
		{"setfenv", `setfenv(1, {})`, forbidden},
		{"getfenv", `getfenv(1)`, forbidden},
		{"newproxy", `newproxy(true)`, forbidden},
		{"module", `module("x")`, forbidden},
		{"collectgarbage", `collectgarbage()`, forbidden},
		{"gsub", `("x"):gsub("x", "y")`, forbidden},
		{"rep", `("x"):rep(1e9)`, forbidden},
		{"random", `math.random()`, forbidden},
		{"io", `io.open("/etc/passwd")`, "attempt to index a non-table object(nil)"},
		{"os.execute", `os.execute("true")`, "attempt to call a non-function object"},
		{"os.getenv", `os.getenv("HOME")`, "attempt to call a non-function object"},
		{"os.exit", `os.exit(1)`, "attempt to call a non-function object"},
		{"clock", `os.time()`, "cannot see the clock"},
		{"date of the clock", `os.date("%Y")`, "cannot see the clock"},
		{"debug", `debug.getinfo(1)`, "attempt to index a non-table object(nil)"},
		{"coroutine", `coroutine.create(print)`, "attempt to index a non-table object(nil)"},
		{"channel", `channel.make()`, "attempt to index a non-table object(nil)"},
		{"package", `package.loadlib("x", "y")`, "attempt to index a non-table object(nil)"},
		{"require a file", `require("os.path")`, "does not exist"},
		{"require what our own scripts share", `require("common")`, "does not exist"},

		{"gsub bomb", `string.gsub(("x"):upper(), ".", function() while true do end end)`, forbidden},
		{"dump", `string.dump(print)`, forbidden},
		{"table in itself for kube", `local t = {} t.spec = t require("kube").accuratePodRequirements(t)`, "deep, or in themselves"},
		{"tables that share a table for kube", `local t = {} for i = 1, 40 do t = {a = t, b = t} end require("kube").getPodDependencies({spec = t}, "x")`, tooMuch},
		{"long list for kube", `local t = {} while true do t[#t + 1] = {name = "x"} require("kube").getPodDependencies({spec = {imagePullSecrets = t}}, "x") end`, "too"},
		{"methods of strings", `local s = "" s.find = nil`, "attempt to index"},
		{"error in the comparison of a sort", `local t = {} for i = 1, 100 do t[i] = {} end table.sort(t)`, "attempt to compare"},
		{"error object in itself", `local t = {} t.t = t error(t)`, "raised a table value"},
		{"error while an error is handled", `xpcall(error, function() error(error) end) while true do end`, tooLong},
		{"error without a value", `error()`, "value expected"},
		{"error object", `error({1, 2, 3})`, "raised a table value"},
		{"error that is a function", `error(print)`, "raised a function value"},
		{"error that is nil", `error(nil)`, "raised a nil value as error"},
		{"error that colours terminals", `error("\27[31mred\0\ngreen\255")`, " [31mred  green?"},
		{"error of a megabyte", `local s = ("boom "):upper() for i = 1, 16 do s = s .. s end error(s)`, "BOOM BOOM"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			i := interpreter(t, healthRule("function InterpretHealth(o)\n"+tt.body+"\nend"))
			health, err := i.Health(bigDeployment())
			runtime.ReadMemStats(&after)
			if health != workv1alpha2.ResourceUnknown {
				t.Errorf("Health = %s, want Unknown", health)
			}
			var failure *ScriptError
			if !errors.As(err, &failure) {
				t.Fatalf("error is %v, want a *ScriptError", err)
			}
			if !strings.Contains(failure.Reason, tt.want) {
				t.Errorf("reason is %q, want %q in it", failure.Reason, tt.want)
			}
			if failure.Customization != "web" || failure.Field != "healthInterpretation" || len(failure.Reason) > 1100 {
				t.Errorf("error is %+v", failure)
			}
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 400 {
				t.Errorf("used %d MiB", used)
			}
		})
	}
}

// TestHugeResultsAreRefused: what a script returns is bounded like what it makes.
func TestHugeResultsAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"tables that share a table", `local t = {} for i = 1, 40 do t = {a = t, b = t} end o.status = t`, "too much memory"},
		{"lists that share a string", `local s, t = ("x"):upper(), {} for i = 1, 15 do s = s .. s end for i = 1, 2000 do t[i] = s end o.status = {t = t}`, "too much memory"},
		{"table in itself", `o.status = o`, "deep, or in themselves"},
		{"deep table", `local t = {} for i = 1, 300 do t = {t} end o.status = {t = t}`, "nested more than"},
		{"function", `o.status = {f = function() end}`, "a function cannot be part of an object"},
		{"not a number", `o.status = {n = 0/0}`, "NaN is no number"},
		{"infinity", `o.status = {n = math.huge * 10}`, "+Inf is no number"},
		{"list with a hole", `o.status = {l = {1, nil, 3}}`, "a list has no element 2"},
		{"list with names", `o.status = {l = {1, 2, x = 3}}`, "named fields beside"},
		{"table with a key that is no name", `o.status = {[true] = 1}`, "a key that is a boolean"},
		{"fraction as key", `o.status = {[1.5] = 1}`, "a list has no element 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := interpreter(t, configv1alpha1.CustomizationRules{ReplicaRevision: &configv1alpha1.LuaRule{
				LuaScript: "function ReviseReplica(o, n)\n" + tt.body + "\nreturn o\nend",
			}})
			_, err := i.Revise(bigDeployment(), 1)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q in it", err, tt.want)
			}
		})
	}
}

// TestNothingPassesFromOneCallToTheNext: a script that changes all it can reach does not change
// what the next call sees.
func TestNothingPassesFromOneCallToTheNext(t *testing.T) {
	const look = `
function InterpretHealth(o)
  local kube = require("kube")
  return leak == nil and string.leak == nil and string[1] == nil and table.leak == nil and math.leak == nil
    and os.leak == nil and kube.leak == nil and ("x").leak == nil and o.leak == nil
    and type(string.find) == "function" and math.floor(1.5) == 1 and tostring(1) == "1" and next({1}) == 1
    and kube.resourceAdd("1", "2") == "3" and ("x"):upper() == "X"
end`
	const spoil = `
leak, tostring, next = true, nil, nil
string.leak, table.leak, math.leak, os.leak = true, true, true, true
table.insert(string, "leak")
string.find, math.floor, string.upper = nil, nil, nil
_G.type, _G.pairs = nil, nil
local kube = require("kube")
kube.leak, kube.resourceAdd = true, nil
function InterpretHealth(o)
  o.leak = true
  o.metadata.leak = true
  return false
end`
	o := bigDeployment()
	for range 3 {
		spoiler := interpreter(t, healthRule(spoil))
		if health, err := spoiler.Health(o); health != workv1alpha2.ResourceUnhealthy || err != nil {
			t.Fatal(health, err)
		}
		looker := interpreter(t, healthRule(look))
		if health, err := looker.Health(o); health != workv1alpha2.ResourceHealthy || err != nil {
			t.Fatalf("a later call sees what an earlier one left: %s, %v", health, err)
		}
	}
	if diff := cmp.Diff(bigDeployment(), o); diff != "" {
		t.Errorf("the object was changed:\n%s", diff)
	}
}

// TestRulesAreDeterministic: tables have no addresses and are walked in the order of their names.
func TestRulesAreDeterministic(t *testing.T) {
	i := interpreter(t, configv1alpha1.CustomizationRules{StatusReflection: &configv1alpha1.LuaRule{LuaScript: `
function ReflectStatus(o)
  local names = {}
  for name in pairs(o.spec) do table.insert(names, name) end
  return {names = table.concat(names, " "), table = tostring(o), print = tostring(print)}
end`}})
	for range 20 {
		got, err := i.Status(bigDeployment())
		if err != nil {
			t.Fatal(err)
		}
		want := api.Object{
			"names": "progressDeadlineSeconds replicas revisionHistoryLimit selector strategy template",
			"table": "table", "print": "function",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	}
}
