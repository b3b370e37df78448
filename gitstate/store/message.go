package store

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Message says what a commit decided and why.
type Message struct {
	// Subject is one line, cut to 72 characters.
	Subject string
	// Body may be empty. Its lines are wrapped at 72 characters.
	Body string
	// Trailers are the last paragraph; a key may come more than once.
	Trailers []Trailer
	// When is the time of the commit, in whole seconds of UTC. The zero time is the Unix epoch.
	When time.Time
}

// Trailer is one machine-readable line of a message.
type Trailer struct{ Key, Value string }

const width = 72

// Format returns the text of the commit: subject, body and trailers as git interpret-trailers reads them. What
// cannot stand in its place is put into a form that can: line breaks in a value become blanks, other characters
// than letters, digits and dashes in a key become dashes.
func (m Message) Format() string {
	paragraphs := []string{subjectLine(m.Subject)}
	if body := wrap(m.Body); body != "" {
		paragraphs = append(paragraphs, body)
	}
	var trailers []string
	for _, t := range m.Trailers {
		if key := strings.Map(keyRune, t.Key); key != "" {
			trailers = append(trailers, strings.TrimRight(key+": "+oneLine(t.Value), " "))
		}
	}
	if len(trailers) > 0 {
		paragraphs = append(paragraphs, strings.Join(trailers, "\n"))
	}
	return strings.Join(paragraphs, "\n\n") + "\n"
}

func subjectLine(s string) string {
	s = undivided(oneLine(s))
	if s == "" {
		return "(no subject)"
	}
	if utf8.RuneCountInString(s) > width {
		s = strings.TrimRight(string([]rune(s)[:width-1]), " ") + "…"
	}
	return s
}

// oneLine joins the words of all lines and drops what no line should hold.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

// undivided keeps a line from being taken for the divider between a message and a patch.
func undivided(line string) string {
	if strings.HasPrefix(line, "---") {
		return "—" + line[len("---"):]
	}
	return line
}

func wrap(body string) string {
	var lines []string
	add := func(line string) {
		if line != "" || len(lines) > 0 && lines[len(lines)-1] != "" {
			lines = append(lines, undivided(line))
		}
	}
	for text := range strings.Lines(body) {
		line := ""
		for word := range strings.SplitSeq(oneLine(text), " ") {
			if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
				add(line)
				line = ""
			}
			line = strings.TrimLeft(line+" "+word, " ")
		}
		add(line)
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

func keyRune(r rune) rune {
	if isKeyByte(r) {
		return r
	}
	return '-'
}

func isKeyByte(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-'
}

// parseMessage takes a commit's text apart, also one that a person wrote. Trailers are the last paragraph, if it is
// not the first and each of its lines is a trailer or goes on with one.
func parseMessage(text string) (subject, body string, trailers []Trailer) {
	text = strings.Trim(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	first, rest, _ := strings.Cut(text, "\n\n")
	subject, rest = strings.Join(strings.Fields(first), " "), strings.Trim(rest, "\n")
	last := rest
	before := ""
	if i := strings.LastIndex(rest, "\n\n"); i >= 0 {
		before, last = rest[:i], rest[i+2:]
	}
	if trailers := parseTrailers(last); trailers != nil {
		return subject, strings.TrimRight(before, "\n"), trailers
	}
	return subject, rest, nil
}

// parseTrailers returns nil if the paragraph is not one of trailers.
func parseTrailers(paragraph string) (trailers []Trailer) {
	for line := range strings.SplitSeq(paragraph, "\n") {
		if n := len(trailers); n > 0 && strings.TrimLeft(line, " \t") != line {
			trailers[n-1].Value = strings.TrimSpace(trailers[n-1].Value + " " + strings.TrimSpace(line))
			continue
		}
		key, value, found := strings.Cut(line, ":")
		key = strings.TrimRight(key, " \t")
		if !found || key == "" || strings.ContainsFunc(key, func(r rune) bool { return !isKeyByte(r) }) {
			return nil
		}
		trailers = append(trailers, Trailer{key, strings.TrimSpace(value)})
	}
	return trailers
}
