package interpret

import (
	"strconv"
	"testing"
)

func TestPatterns(t *testing.T) {
	for _, tt := range []struct{ call, want string }{
		{`string.find("hello", "l")`, "3 3"},
		{`string.find("hello", "xyz")`, "nil"},
		{`string.find("hello", "l", 4)`, "4 4"},
		{`string.find("hello", "l", -2)`, "4 4"},
		{`string.find("hello", "", 3)`, "3 2"},
		{`string.find("hello", "", 10)`, "nil"},
		{`string.find("a.b", ".", 2, true)`, "2 2"},
		{`string.find("a+b", "a+b")`, "nil"},
		{`string.find("hello world", "(o) (w)")`, "5 7 o w"},
		{`string.find("hello", "^h")`, "1 1"},
		{`string.find("hello", "^e")`, "nil"},
		{`string.find("hello", "o$")`, "5 5"},
		{`string.find("a$b", "$b")`, "2 3"},
		{`string.match("key = value", "(%w+)%s*=%s*(%w+)")`, "key value"},
		{`string.match("2026-01-02", "(%d+)-(%d+)-(%d+)")`, "2026 01 02"},
		{`string.match("hello", ".-l")`, "hel"},
		{`string.match("hello", ".*l")`, "hell"},
		{`string.match("hello", "l+")`, "ll"},
		{`string.match("hello", "x?h")`, "h"},
		{`string.match("colour color", "colou?r", 8)`, "color"},
		{`string.match("hello", "()ll()")`, "3 5"},
		{`string.match("abcabc", "(a)(b)(c)%1%2%3")`, "a b c"},
		{`string.match("abab", "(ab)%1")`, "ab"},
		{`string.match("f(a(b)c)d", "%b()")`, "(a(b)c)"},
		{`string.match("f(a", "%b()")`, "nil"},
		{`string.match("THE (quick) fox", "%f[%a]%a+%f[%A]", 5)`, "quick"},
		{`string.match("x^y", "[%^]y")`, "^y"},
		{`string.match("a]b", "[]]b")`, "]b"},
		{`string.match("a-b", "[a-]+")`, "a-"},
		{`string.match("m-z", "[^a-l]+")`, "m-z"},
		{`string.match("x9_", "[%w_]+")`, "x9_"},
		{`string.match("100%", "%d+%%")`, "100%"},
		{`string.match("a\0b", "%z")`, "\x00"},
		{`string.match("aB1 .", "%l%u%d%s%p")`, "aB1 ."},
		{`string.match("  x", "%S")`, "x"},
		{`string.match("0xFf", "%x%X%x%x")`, "0xFf"},
		{`string.match("", ".*")`, ""},
		{`string.match("abc", "((a)(b))")`, "ab a b"},
		{`string.match("aaa", "a-$")`, "aaa"},
		{`("x=1, y=2"):match("y=(%d)")`, "2"},

		{`string.match("x", "%")`, "error: malformed pattern (ends with '%')"},
		{`string.match("x", "[a")`, "error: malformed pattern (missing ']')"},
		{`string.match("x", "[")`, "error: malformed pattern (missing ']')"},
		{`string.match("x", "[%")`, "error: malformed pattern (missing ']')"},
		{`string.match("x", "(x")`, "error: unfinished capture"},
		{`string.match("x", "x)")`, "error: invalid pattern capture"},
		{`string.match("x", "%1")`, "error: invalid capture index"},
		{`string.match("x", "(x%1)")`, "error: invalid capture index"},
		{`string.match("x", "%b")`, "error: malformed pattern (missing arguments to '%b')"},
		{`string.match("x", "%fx")`, "error: malformed pattern (missing '[' after '%f')"},
	} {
		body := `local out = "" for _, v in ipairs({` + tt.call + `}) do out = out .. (out == "" and "" or " ") .. tostring(v) end
			if out == "" and ` + tt.call + ` == nil then return "nil" end return out`
		if got := evaluate(t, body); got != tt.want {
			t.Errorf("%s = %s, want %s", tt.call, strconv.Quote(got), strconv.Quote(tt.want))
		}
	}
	for _, tt := range []struct{ body, want string }{
		{`local out = "" for w in string.gmatch("one two  three", "%a+") do out = out .. w .. ";" end return out`, "one;two;three;"},
		{`local out = "" for k, v in string.gmatch("a=1, b=2", "(%w+)=(%w+)") do out = out .. k .. v end return out`, "a1b2"},
		{`local n = 0 for w in string.gmatch("abc", "") do n = n + 1 end return n`, "4"},
		{`local out = "" for p in string.gfind("abc", "()") do out = out .. p end return out`, "1234"},
	} {
		if got := evaluate(t, tt.body); got != tt.want {
			t.Errorf("%s = %s, want %s", tt.body, got, tt.want)
		}
	}
}
