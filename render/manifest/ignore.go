package manifest

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// ignoreFile has the syntax and the rules of .gitignore; one may stand in any folder.
const ignoreFile = ".godwitignore"

// maxIgnores is how many bytes of rules there may be for one file, in all folders above it. Each name in the tree is
// compared with each of them.
const maxIgnores = 16 << 10

// ignores are the rules of one ignore file, on top of those of the folders above.
type ignores struct {
	above *ignores
	dir   string
	rules []ignoreRule
	bytes int // of these rules and those above
}

type ignoreRule struct {
	pattern  *regexp.Regexp // of the path relative to the folder of the ignore file
	keep     bool           // the rule began with "!"
	onlyDirs bool
}

// ignored tells whether the rules name the file or folder. The last rule that does decides, and
// those of deeper folders come last.
func (ig *ignores) ignored(name string, isDir bool) bool {
	for ; ig != nil; ig = ig.above {
		rel := name
		if ig.dir != "." {
			rel = strings.TrimPrefix(name, ig.dir+"/")
		}
		for i := len(ig.rules) - 1; i >= 0; i-- {
			r := ig.rules[i]
			if (isDir || !r.onlyDirs) && r.pattern.MatchString(rel) {
				return !r.keep
			}
		}
	}
	return false
}

// parseIgnores reads an ignore file in dir. A line that is no pattern names nothing, as in Git.
func parseIgnores(above *ignores, dir, text string) (*ignores, error) {
	ig := &ignores{above: above, dir: path.Clean(dir), bytes: len(text)}
	if above != nil {
		ig.bytes += above.bytes
	}
	if ig.bytes > maxIgnores {
		return nil, fmt.Errorf("%w: more than %d bytes of rules, with those of the folders above; nothing in this folder is read", errTooLarge, maxIgnores)
	}
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		if r, ok := parseIgnore(strings.TrimRight(line, "\r\n")); ok {
			ig.rules = append(ig.rules, r)
		}
	}
	return ig, nil
}

func parseIgnore(line string) (r ignoreRule, ok bool) {
	if line == "" || line[0] == '#' {
		return r, false
	}
	if line[0] == '!' {
		r.keep, line = true, line[1:]
	}
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if strings.HasSuffix(line, "/") {
		r.onlyDirs, line = true, line[:len(line)-1]
	}
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	expr := ignoreRegexp(line)
	if !anchored {
		expr = "(?:.*/)?" + expr
	}
	var err error
	r.pattern, err = regexp.Compile(`(?s)\A` + expr + `\z`)
	return r, err == nil
}

// ignoreRegexp is the pattern as a regular expression. "**" means any number of folders where it
// stands alone between slashes, and "*" elsewhere.
func ignoreRegexp(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); {
		rest := pattern[i:]
		between := i == 0 || pattern[i-1] == '/'
		switch {
		case between && strings.HasPrefix(rest, "**/"):
			b.WriteString("(?:.*/)?")
			i += 3
		case between && rest == "**":
			b.WriteString(".+")
			i += 2
		case rest[0] == '*':
			b.WriteString("[^/]*")
			i += len(rest) - len(strings.TrimLeft(rest, "*"))
		case rest[0] == '?':
			b.WriteString("[^/]")
			i++
		case rest[0] == '[':
			class, n := ignoreClass(rest)
			b.WriteString(class)
			i += n
		case rest[0] == '\\' && len(rest) > 1:
			b.WriteString(regexp.QuoteMeta(rest[1:2]))
			i += 2
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
			i++
		}
	}
	return b.String()
}

// ignoreClass is the bracket expression at the begin of s and its length. An open one is just a bracket,
// which matches nothing in Git either, since no name is meant by it.
func ignoreClass(s string) (class string, n int) {
	body := s[1:]
	negated := len(body) > 0 && (body[0] == '!' || body[0] == '^')
	if negated {
		body = body[1:]
	}
	var b strings.Builder
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == ']' && i > 0:
			n = len(s) - len(body) + i + 1
			if negated {
				return "[^/" + b.String() + "]", n
			}
			return "[" + b.String() + "]", n
		case strings.HasPrefix(body[i:], "[:") && strings.Contains(body[i:], ":]"):
			end := i + strings.Index(body[i:], ":]") + 2
			b.WriteString(body[i:end])
			i = end - 1
		case c == '\\' && i+1 < len(body):
			i++
			b.WriteString(`\` + body[i:i+1])
		case strings.IndexByte(`\[]^&~`, c) >= 0:
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	return `\[`, 1
}
