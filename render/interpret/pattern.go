package interpret

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// Lua's patterns (Lua 5.1 reference manual, section 5.4.1), matched by us so that the work counts:
// a pattern such as "a*a*a*b" tries every way to divide a long string.

const (
	maxPattern  = 4096
	maxCaptures = 32

	openCapture     = -1 // the capture's end was not reached yet
	positionCapture = -2 // "()"
)

// matcher tries one pattern on one subject.
type matcher struct {
	*machine
	subject, pattern string
	captures         [maxCaptures]struct{ start, length int }
	level            int
	work             int
}

func (m *machine) matcher(subject, pattern string) *matcher {
	if len(pattern) > maxPattern {
		m.state.RaiseError("pattern of more than %d bytes", maxPattern)
	}
	return &matcher{machine: m, subject: subject, pattern: pattern}
}

func (p *matcher) malformed(why string) { p.state.RaiseError("malformed pattern (%s)", why) }

// tick counts one comparison; 64 of them are a step.
func (p *matcher) tick() {
	if p.work++; p.work&63 == 0 {
		p.spend(1)
	}
}

// search is the first match that begins at from or later.
func (p *matcher) search(from int) (start, end int, found bool) {
	at, anchored := 0, strings.HasPrefix(p.pattern, "^")
	if anchored {
		at = 1
	}
	for start = from; start <= len(p.subject); start++ {
		p.level = 0
		if end := p.match(start, at); end >= 0 {
			return start, end, true
		}
		if anchored {
			break
		}
	}
	return 0, 0, false
}

// match is where the match of the pattern from at on ends if it begins at s; -1 if it does not match.
func (p *matcher) match(s, at int) int {
	for at < len(p.pattern) {
		p.tick()
		switch c := p.pattern[at]; {
		case c == '(':
			if strings.HasPrefix(p.pattern[at:], "()") {
				return p.capture(s, at+2, positionCapture)
			}
			return p.capture(s, at+1, openCapture)
		case c == ')':
			return p.closeCapture(s, at+1)
		case c == '$' && at+1 == len(p.pattern):
			if s == len(p.subject) {
				return s
			}
			return -1
		case c == '%' && at+1 < len(p.pattern) && p.pattern[at+1] == 'b':
			if s = p.balanced(s, at+2); s < 0 {
				return -1
			}
			at += 4
			continue
		case c == '%' && at+1 < len(p.pattern) && p.pattern[at+1] == 'f':
			at += 2
			if at >= len(p.pattern) || p.pattern[at] != '[' {
				p.malformed("missing '[' after '%f'")
			}
			end := p.itemEnd(at)
			if p.inSet(p.byteAt(s-1), at, end) || !p.inSet(p.byteAt(s), at, end) {
				return -1
			}
			at = end
			continue
		case c == '%' && at+1 < len(p.pattern) && isDigit(p.pattern[at+1]):
			earlier := p.captured(int(p.pattern[at+1] - '1'))
			p.spend(len(earlier) >> 6)
			if !strings.HasPrefix(p.subject[s:], earlier) {
				return -1
			}
			s += len(earlier)
			at += 2
			continue
		}
		end := p.itemEnd(at)
		var suffix byte
		if end < len(p.pattern) {
			suffix = p.pattern[end]
		}
		switch suffix {
		case '?':
			if p.single(s, at, end) {
				if found := p.match(s+1, end+1); found >= 0 {
					return found
				}
			}
			at = end + 1
		case '*':
			return p.longest(s, at, end)
		case '+':
			if !p.single(s, at, end) {
				return -1
			}
			return p.longest(s+1, at, end)
		case '-':
			return p.shortest(s, at, end)
		default:
			if !p.single(s, at, end) {
				return -1
			}
			s++
			at = end
		}
	}
	return s
}

// longest matches as many of the item as it can, then fewer.
func (p *matcher) longest(s, at, end int) int {
	n := 0
	for p.single(s+n, at, end) {
		n++
	}
	for ; n >= 0; n-- {
		p.tick()
		if found := p.match(s+n, end+1); found >= 0 {
			return found
		}
	}
	return -1
}

func (p *matcher) shortest(s, at, end int) int {
	for {
		if found := p.match(s, end+1); found >= 0 {
			return found
		}
		if !p.single(s, at, end) {
			return -1
		}
		s++
	}
}

func (p *matcher) capture(s, at, kind int) int {
	if p.level == maxCaptures {
		p.state.RaiseError("too many captures")
	}
	p.captures[p.level].start, p.captures[p.level].length = s, kind
	p.level++
	found := p.match(s, at)
	if found < 0 {
		p.level--
	}
	return found
}

func (p *matcher) closeCapture(s, at int) int {
	n := p.level - 1
	for ; n >= 0 && p.captures[n].length != openCapture; n-- {
	}
	if n < 0 {
		p.state.RaiseError("invalid pattern capture")
	}
	p.captures[n].length = s - p.captures[n].start
	found := p.match(s, at)
	if found < 0 {
		p.captures[n].length = openCapture
	}
	return found
}

// captured is the text of an earlier capture.
func (p *matcher) captured(n int) string {
	if n < 0 || n >= p.level || p.captures[n].length < 0 {
		p.state.RaiseError("invalid capture index")
	}
	c := p.captures[n]
	return p.subject[c.start : c.start+c.length]
}

// balanced is where a text in balanced pairs, as (a(b)c), ends.
func (p *matcher) balanced(s, at int) int {
	if at+1 >= len(p.pattern) {
		p.malformed("missing arguments to '%b'")
	}
	first, last := p.pattern[at], p.pattern[at+1]
	if s >= len(p.subject) || p.subject[s] != first {
		return -1
	}
	for depth := 0; s < len(p.subject); s++ {
		p.tick()
		switch p.subject[s] {
		case last:
			if depth--; depth == 0 {
				return s + 1
			}
		case first:
			depth++
		}
	}
	return -1
}

// itemEnd is where the item that begins at ends: one character, %x or a set.
func (p *matcher) itemEnd(at int) int {
	switch p.pattern[at] {
	case '%':
		if at+1 == len(p.pattern) {
			p.malformed("ends with '%'")
		}
		return at + 2
	case '[':
		end := at + 1
		if end < len(p.pattern) && p.pattern[end] == '^' {
			end++
		}
		for first := true; first || end < len(p.pattern) && p.pattern[end] != ']'; first = false {
			if end < len(p.pattern) && p.pattern[end] == '%' {
				end++
			}
			if end++; end > len(p.pattern) {
				break
			}
		}
		if end >= len(p.pattern) {
			p.malformed("missing ']'")
		}
		return end + 1
	}
	return at + 1
}

// byteAt is the byte of the subject, 0 beyond its ends.
func (p *matcher) byteAt(s int) byte {
	if s < 0 || s >= len(p.subject) {
		return 0
	}
	return p.subject[s]
}

// single: the byte at s is one that the item stands for.
func (p *matcher) single(s, at, end int) bool {
	p.tick()
	if s >= len(p.subject) {
		return false
	}
	c := p.subject[s]
	switch p.pattern[at] {
	case '.':
		return true
	case '%':
		return inClass(c, p.pattern[at+1])
	case '[':
		return p.inSet(c, at, end)
	}
	return p.pattern[at] == c
}

// inSet: the byte is in the set that the pattern has from at to end, brackets included.
func (p *matcher) inSet(c byte, at, end int) bool {
	set := p.pattern[at+1 : end-1]
	negated := strings.HasPrefix(set, "^")
	if negated {
		set = set[1:]
	}
	for n := 0; n < len(set); n++ {
		p.tick()
		switch {
		case set[n] == '%' && n+1 < len(set):
			n++
			if inClass(c, set[n]) {
				return !negated
			}
		case n+2 < len(set) && set[n+1] == '-':
			if set[n] <= c && c <= set[n+2] {
				return !negated
			}
			n += 2
		case set[n] == c:
			return !negated
		}
	}
	return negated
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

var classes = map[byte]func(byte) bool{
	'a': func(c byte) bool { return isLower(c) || isUpper(c) },
	'c': func(c byte) bool { return c < ' ' || c == 127 },
	'd': isDigit,
	'l': isLower,
	'p': func(c byte) bool { return '!' <= c && c <= '~' && !isLower(c) && !isUpper(c) && !isDigit(c) },
	's': func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' },
	'u': isUpper,
	'w': func(c byte) bool { return isLower(c) || isUpper(c) || isDigit(c) },
	'x': func(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' },
	'z': func(c byte) bool { return c == 0 },
}

// inClass: %a is a letter, %A anything else; a % before what is no class stands for the character.
func inClass(c, class byte) bool {
	if in, ok := classes[class|0x20]; ok && (isLower(class) || isUpper(class)) {
		return in(c) == isLower(class)
	}
	return c == class
}

// push gives the captures to the script, or the whole match if the pattern has none.
func (p *matcher) push(start, end int) int {
	if p.level == 0 {
		p.state.Push(lua.LString(p.subject[start:end]))
		return 1
	}
	for n := range p.level {
		if p.captures[n].length == positionCapture {
			p.state.Push(lua.LNumber(p.captures[n].start + 1))
			continue
		}
		if p.captures[n].length == openCapture {
			p.state.RaiseError("unfinished capture")
		}
		p.state.Push(lua.LString(p.captured(n)))
	}
	return p.level
}

// from is where a search begins: Lua counts from 1, and from the end below 0.
func from(init, length int) int {
	if init < 0 {
		init += length + 1
	}
	return min(max(init-1, 0), length+1)
}

func (m *machine) find(l *lua.LState) int {
	subject, pattern := m.argument(1), m.argument(2)
	init := from(l.OptInt(3, 1), len(subject))
	if init > len(subject) {
		l.Push(lua.LNil)
		return 1
	}
	if lua.LVAsBool(l.Get(4)) || !strings.ContainsAny(pattern, "^$*+?.([%-") {
		at := strings.Index(subject[init:], pattern)
		if at < 0 {
			l.Push(lua.LNil)
			return 1
		}
		l.Push(lua.LNumber(init + at + 1))
		l.Push(lua.LNumber(init + at + len(pattern)))
		return 2
	}
	p := m.matcher(subject, pattern)
	start, end, found := p.search(init)
	if !found {
		l.Push(lua.LNil)
		return 1
	}
	l.Push(lua.LNumber(start + 1))
	l.Push(lua.LNumber(end))
	if p.level == 0 {
		return 2
	}
	return 2 + p.push(start, end)
}

func (m *machine) match(l *lua.LState) int {
	subject, pattern := m.argument(1), m.argument(2)
	if init := from(l.OptInt(3, 1), len(subject)); init <= len(subject) {
		p := m.matcher(subject, pattern)
		if start, end, found := p.search(init); found {
			return p.push(start, end)
		}
	}
	l.Push(lua.LNil)
	return 1
}

func (m *machine) gmatch(l *lua.LState) int {
	subject, pattern := m.argument(1), m.argument(2)
	next := 0
	l.Push(l.NewFunction(func(l *lua.LState) int {
		p := m.matcher(subject, pattern)
		start, end, found := p.search(next)
		if next > len(subject) || !found {
			l.Push(lua.LNil)
			return 1
		}
		next = end
		if start == end {
			next++
		}
		return p.push(start, end)
	}))
	return 1
}
