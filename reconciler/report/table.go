package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// Style says who reads a text; the zero value is for programs: plain, and each row on one line.
type Style struct {
	Colour bool
	// Width is how many columns the terminal has; 0 breaks no line.
	Width int
}

func (s Style) paint(code, text string) string {
	if !s.Colour || code == "" || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Colours by what they say.
const (
	good  = "32" // green
	bad   = "31" // red
	heed  = "33" // yellow
	plain = "36" // cyan
	title = "1"  // bold
)

// wordColours are by the head of the column that the word stands in. Nothing is said by a colour alone.
var wordColours = map[string]map[string]string{
	"CHANGE":  {"added": good, "removed": bad, "moved": heed, "scaled": plain, "updated": plain},
	"OUTCOME": {"moves": good, "partly": heed, "stays": bad, "chosen": good, "kept": good, "refused": bad, "passed over": heed, "dropped": heed},
	"RESULT":  {"identical": good, "differs": bad, "unreadable": bad, "person": plain},
	"READY":   {"True": good, "False": bad, "Unknown": heed},
	"HEALTH":  {"Healthy": good, "Unhealthy": bad, "Unknown": heed},
	"APPLIED": {"no": bad},
}

// Table prints rows below each other in columns, as kubectl does; the first is the head. On a terminal that is too
// narrow, cells go on below themselves in their column: nothing is cut. Words stay whole where that is possible, and are
// parted behind signs such as / and - before they are parted anywhere. Where even that leaves no room, rows are as long
// as they are.
func Table(w io.Writer, s Style, rows [][]string) error { return table(w, s, 0, rows) }

func table(w io.Writer, s Style, indent int, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	cells := make([][]string, len(rows))
	for i, row := range rows {
		cells[i] = make([]string, len(row))
		for j, text := range row {
			cells[i][j] = flat(text)
		}
	}
	room := 0
	if s.Width > 0 {
		room = max(1, s.Width-indent)
	}
	widths, gap := columns(cells, room)
	var b strings.Builder
	for _, row := range cells {
		parts, height := make([][]string, len(row)), 1
		for j, text := range row {
			parts[j] = wrap(text, widths[j], anywhere)
			height = max(height, len(parts[j]))
		}
		for line := range height {
			start, end := indent, 0 // of this column, and of what is on the line
			for j := range row {
				if part := at(parts[j], line); part != "" {
					b.WriteString(strings.Repeat(" ", start-end))
					b.WriteString(s.paint(wordColours[at(cells[0], j)][row[j]], part))
					end = start + columnsOf(part)
				}
				start += widths[j] + gap
			}
			b.WriteByte('\n')
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func at(row []string, i int) string {
	if i < len(row) {
		return row[i]
	}
	return ""
}

const (
	// wideGap and narrowGap stand between columns.
	wideGap, narrowGap = 3, 2
	// leastColumn is how narrow a column may become where words are parted anywhere; words up to wholeWord never are.
	leastColumn, wholeWord = 10, 12
	// readable is how wide sentences want to be.
	readable = 24
)

// Ways to part words, from the best to the worst: not at all; behind signs between names, and times behind their T;
// behind other signs, but not within dates and numbers; before capitals; anywhere.
const (
	nowhere = iota
	atNames
	atSigns
	atCapitals
	anywhere
)

// sentence is how many words make a sentence.
const sentence = 4

// yields are tried in order, until columns have room enough: sentences give way to so many columns, the rest stays whole
// or is broken between words, and words are parted so.
var yields = []struct {
	whole    bool
	how      int
	sentence int
}{
	{true, nowhere, readable}, {false, nowhere, readable}, {false, nowhere, 16}, {false, atNames, readable}, {false, atNames, 16},
	{false, atSigns, readable}, {false, atSigns, 16}, {false, atCapitals, 16}, {false, anywhere, wholeWord},
}

// columns returns how wide each column is made, and the gap between two. room is 0 where there is no limit.
func columns(rows [][]string, room int) (widths []int, gap int) {
	natural := widest(rows, func(text string, _ int) int { return columnsOf(text) })
	fits := func(widths []int, gap int) bool {
		total := gap * (len(widths) - 1)
		for _, n := range widths {
			total += n
		}
		return total <= room
	}
	switch {
	case room == 0 || fits(natural, wideGap):
		return natural, wideGap
	case fits(natural, narrowGap):
		return natural, narrowGap
	}
	words := widest(rows, func(text string, _ int) int { return strings.Count(text, " ") + 1 })
	var parts []int // the longest of each column, if words are parted so
	how := -1
	for _, y := range yields {
		if way := min(y.how, atCapitals); way != how {
			how = way
			parts = widest(rows, func(text string, known int) int { return longest(text, how, known) })
		}
		least := slices.Clone(parts)
		for j, n := range natural {
			if y.how == anywhere && least[j] > wholeWord {
				least[j] = leastColumn
			}
			switch {
			case words[j] >= sentence && n > y.sentence:
				least[j] = max(least[j], y.sentence)
			case y.whole:
				least[j] = n
			}
		}
		if fits(least, narrowGap) {
			widths = share(least, natural, room-narrowGap*(len(natural)-1))
			// What breaking at blanks leaves empty goes back.
			used := make([]int, len(widths))
			for _, row := range rows {
				for j, text := range row {
					for _, part := range wrap(text, widths[j], anywhere) {
						used[j] = max(used[j], columnsOf(part))
					}
				}
			}
			if fits(used, wideGap) {
				return used, wideGap
			}
			return used, narrowGap
		}
	}
	return natural, wideGap
}

// widest is the greatest measure of the cells of each column; measure is told what is known already.
func widest(rows [][]string, measure func(text string, known int) int) (all []int) {
	for _, row := range rows {
		for j, text := range row {
			if j == len(all) {
				all = append(all, 0)
			}
			all[j] = max(all[j], measure(text, all[j]))
		}
	}
	return all
}

// longest is the width of the longest part of a text that is parted so, or known if none is longer.
func longest(text string, how, known int) int {
	for word := range strings.FieldsSeq(text) {
		if columnsOf(word) <= known {
			continue
		}
		for _, part := range parted(word, how) {
			known = max(known, columnsOf(part))
		}
	}
	return known
}

// share gives columns the room there is beyond the least: each time to the one that takes the most lines.
func share(least, natural []int, room int) []int {
	widths := make([]int, len(least))
	for j, n := range least {
		widths[j] = n
		room -= n
	}
	for ; room > 0; room-- {
		to := -1
		for j, n := range natural {
			if widths[j] < n && (to < 0 || n*max(widths[to], 1) > natural[to]*max(widths[j], 1)) {
				to = j
			}
		}
		if to < 0 {
			break
		}
		widths[to]++
	}
	return widths
}

// wrap breaks a text at blanks into lines that are no wider than room; a word that is wider is parted as gently as goes,
// and no worse than by the last way. 0 breaks nothing.
func wrap(text string, room, last int) (lines []string) {
	if room <= 0 || columnsOf(text) <= room {
		return []string{text}
	}
	line, used := "", 0
	put := func(glue, part string) {
		n := columnsOf(part)
		if used > 0 && used+len(glue)+n > room {
			lines, line, used = append(lines, line), "", 0
		}
		if used > 0 {
			line += glue
			used += len(glue)
		}
		line += part
		used += n
	}
	for word := range strings.FieldsSeq(text) {
		for i, part := range pieces(word, room, nowhere, last) {
			if i == 0 {
				put(" ", part)
			} else {
				put("", part)
			}
		}
	}
	return append(lines, line)
}

// pieces are the parts of a word that there is room for; what fits is not parted further.
func pieces(word string, room, how, last int) (all []string) {
	if how == last || columnsOf(word) <= room {
		return []string{word}
	}
	for _, part := range parted(word, how+1) {
		all = append(all, pieces(part, room, how+1, last)...)
	}
	return all
}

// parted are the parts of a word that stay together.
func parted(word string, how int) (parts []string) {
	start := 0
	var before, last rune
	for i, r := range word {
		if i > start && runeColumns(r) > 0 && mayPart(before, last, r, how) { // what combines stays with what it combines with
			parts, start = append(parts, word[start:i]), i
		}
		before, last = last, r
	}
	return append(parts, word[start:])
}

// mayPart tells whether a word may be parted between last and next.
func mayPart(before, last, next rune, how int) bool {
	digit := unicode.IsDigit(next)
	switch how {
	case nowhere:
		return false
	case atNames:
		return last == '/' || last == ',' || last == 'T' && unicode.IsDigit(before) && digit
	case atSigns:
		return mayPart(before, last, next, atNames) || strings.ContainsRune("-._:@", last) && !digit
	case atCapitals:
		return mayPart(before, last, next, atSigns) || unicode.IsLower(last) && unicode.IsUpper(next)
	}
	return true
}

// columnsOf is how many columns of a terminal a text takes.
func columnsOf(text string) (n int) {
	for _, r := range text {
		n += runeColumns(r)
	}
	return n
}

// runeColumns follows Unicode's East Asian Width, as terminals do: 2 for wide characters and emoji, 0 for what combines.
func runeColumns(r rune) int {
	switch {
	case r >= ' ' && r < 0x7f:
		return 1
	case r == 0xad: // a hyphen that terminals show
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf), r >= 0x1160 && r <= 0x11ff: // the latter are later parts of Hangul syllables
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Cut is as much of a text as takes that many columns.
func Cut(text string, room int) string {
	for i, r := range text {
		if room -= runeColumns(r); room < 0 {
			return text[:i]
		}
	}
	return text
}

// prose prints a text in lines that the terminal has room for, later ones indented by hang more. Words stay whole: what is
// long, such as a path or a value, can be copied.
func prose(w io.Writer, s Style, indent, hang, code, text string) error {
	var b strings.Builder
	room := 0
	if s.Width > 0 {
		room = max(1, s.Width-len(indent)-len(hang))
	}
	for i, line := range wrap(text, room, nowhere) {
		b.WriteString(indent)
		if i > 0 {
			b.WriteString(hang)
		}
		b.WriteString(s.paint(code, line) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// notes are what several rows of a table say at length; it is told once, below the table. The zero value is ready to use.
type notes struct {
	times map[string]int
	order []string
}

// longNote is how long a text is that is not repeated.
const longNote = 60

// count says that a row says so.
func (n *notes) count(text string) {
	if text = flat(text); columnsOf(text) <= longNote {
		return
	}
	if n.times == nil {
		n.times = map[string]int{}
	}
	if n.times[text]++; n.times[text] == 2 {
		n.order = append(n.order, text)
	}
}

// of is what the row says instead.
func (n *notes) of(text string) string {
	if i := slices.Index(n.order, flat(text)); i >= 0 {
		return fmt.Sprintf("[%d]", i+1)
	}
	return text
}

func (n *notes) print(w io.Writer, s Style) error {
	for i, text := range n.order {
		if err := prose(w, s, "", "    ", "", fmt.Sprintf("[%d] %s", i+1, text)); err != nil {
			return err
		}
	}
	if len(n.order) > 0 {
		fmt.Fprintln(w)
	}
	return nil
}
