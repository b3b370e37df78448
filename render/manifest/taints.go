package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/godwit-gitops/godwit/api/canonical"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
)

// ErrStyle says that a file is written in a way that cannot be edited without writing it anew.
var ErrStyle = errors.New("the file is written in a way that is not edited here; edit it by hand")

// EditTaints returns the file with other taints in the manifest of a Cluster: those that change returns for the ones
// there. All else of the file stays as it is, byte for byte: comments, order, style, other documents. What is returned
// was read back and says what it should; where that cannot be had the error is ErrStyle.
func EditTaints(data []byte, cluster string, change func([]corev1.Taint) ([]corev1.Taint, error)) ([]byte, error) {
	found, edited := 0, data
	for _, c := range split(data) {
		values, _, err := canonical.Decode(c.data)
		if err != nil {
			continue // that document has a finding
		}
		for _, item := range append([]int{-1}, indexes(values)...) {
			object := objectAt(values, item)
			if !isCluster(object, cluster) {
				continue
			}
			if found++; found > 1 {
				return nil, fmt.Errorf("Cluster %s is in the file twice", cluster)
			}
			old, err := taintsOf(object)
			if err != nil {
				return nil, err
			}
			next, err := change(slices.Clone(old))
			if err != nil {
				return nil, err
			}
			if slices.EqualFunc(old, next, sameTaint) {
				continue
			}
			text, err := editDocument(c.data, item, old, next)
			if err == nil {
				err = verify(values, text, item, next)
			}
			if err != nil {
				return nil, err
			}
			edited = slices.Concat(data[:c.at], text, data[c.at+len(c.data):])
		}
	}
	if found == 0 {
		return nil, fmt.Errorf("the file has no Cluster %s", cluster)
	}
	return edited, nil
}

// indexes are those of a List's items.
func indexes(values any) []int {
	m, _ := values.(map[string]any)
	items, _ := m["items"].([]any)
	if m["kind"] != "List" {
		return nil
	}
	all := make([]int, len(items))
	for i := range all {
		all[i] = i
	}
	return all
}

// objectAt is the document, or an item of the List that it is.
func objectAt(values any, item int) map[string]any {
	m, _ := values.(map[string]any)
	if item < 0 {
		return m
	}
	items, _ := m["items"].([]any)
	o, _ := items[item].(map[string]any)
	return o
}

func isCluster(o map[string]any, name string) bool {
	version, _ := o["apiVersion"].(string)
	metadata, _ := o["metadata"].(map[string]any)
	return strings.HasPrefix(version, clusterv1alpha1.Group+"/") && o["kind"] == "Cluster" && metadata["name"] == name
}

func taintsOf(o map[string]any) ([]corev1.Taint, error) {
	spec, ok := o["spec"].(map[string]any)
	if !ok {
		return nil, errors.New("the Cluster has no spec; write one with its syncMode first")
	}
	text, err := json.Marshal(spec["taints"])
	if err != nil {
		return nil, err
	}
	var taints []corev1.Taint
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&taints); err != nil {
		return nil, fmt.Errorf("spec.taints: %w", err)
	}
	return taints, nil
}

func sameTaint(a, b corev1.Taint) bool {
	return a.MatchTaint(&b) && a.Value == b.Value && (a.TimeAdded == nil) == (b.TimeAdded == nil) && a.TimeAdded.Equal(b.TimeAdded)
}

// verify reads the edited document and compares: nothing but the taints may differ.
func verify(values any, text []byte, item int, want []corev1.Taint) error {
	again, _, err := canonical.Decode(text)
	if err != nil || len(split(text)) > 1 {
		return ErrStyle
	}
	object := objectAt(again, min(item, len(indexes(again))-1))
	got, err := taintsOf(object)
	if err != nil || !slices.EqualFunc(got, want, sameTaint) {
		return ErrStyle
	}
	bare := func(values any) any { // without the taints; values are not changed
		text, err := json.Marshal(values)
		var copied any
		if err != nil || json.Unmarshal(text, &copied) != nil {
			return nil
		}
		spec, _ := objectAt(copied, item)["spec"].(map[string]any)
		delete(spec, "taints")
		return copied
	}
	if a, b := bare(values), bare(again); a == nil || !reflect.DeepEqual(a, b) {
		return ErrStyle
	}
	return nil
}

// document is a text with the lines and nodes of it. Its methods count lines from 0.
type document struct {
	text    []byte
	starts  []int // of lines
	literal []bool
	newline string
	json    bool
	splices []splice
}

// splice replaces a part of the text.
type splice struct {
	from, to int
	text     string
}

func editDocument(text []byte, item int, old, next []corev1.Taint) (_ []byte, err error) {
	defer func() {
		if recover() != nil { // positions that the text does not have
			err = ErrStyle
		}
	}()
	var node yaml.Node
	if yaml.Unmarshal(text, &node) != nil || len(node.Content) != 1 {
		return nil, ErrStyle
	}
	d := &document{text: text, newline: "\n", starts: []int{0}}
	if bytes.Contains(text, []byte("\r\n")) {
		d.newline = "\r\n"
	}
	for i, b := range text {
		if b == '\n' && i+1 < len(text) {
			d.starts = append(d.starts, i+1)
		}
	}
	d.literal = make([]bool, len(d.starts))
	d.literals(node.Content[0], -1)
	at := node.Content[0]
	if item >= 0 {
		_, items := own(at, "items")
		at = items.Content[item]
	}
	key, spec := own(at, "spec")
	if spec == nil || spec.Kind != yaml.MappingNode || spec.Anchor != "" {
		return nil, ErrStyle
	}
	d.json = key.Style&yaml.DoubleQuotedStyle != 0
	if err := d.edit(spec, old, next); err != nil {
		return nil, err
	}
	return d.apply(), nil
}

// own is the key and the value of a mapping's own key; the last of equal ones counts.
func own(n *yaml.Node, name string) (key, value *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		for i := len(n.Content) - 2; i >= 0; i -= 2 {
			if n.Content[i].Value == name {
				return n.Content[i], n.Content[i+1]
			}
		}
	}
	return nil, nil
}

func flow(n *yaml.Node) bool { return n.Style&yaml.FlowStyle != 0 }

// edit chooses the way by how spec and taints are written.
func (d *document) edit(spec *yaml.Node, old, next []corev1.Taint) error {
	key, taints := own(spec, "taints")
	switch {
	case taints == nil && flow(spec):
		parts := d.parts(spec)
		parts.add(d.scalar("taints") + ": " + d.list(next))
		d.put(parts)
	case taints == nil:
		first := spec.Content[0]
		indent := first.Column - 1
		end := d.lastLine(first.Line-1, func(line int) bool { return d.indent(line) >= indent })
		d.insertAfter(end, d.taintLines(indent, next))
	case taints.Kind == yaml.ScalarNode && taints.Tag == "!!null" && taints.Value == "" && !flow(spec):
		lines := d.taintLines(key.Column-1, next)
		d.insertAfter(key.Line-1, lines[1:])
	case taints.Kind == yaml.ScalarNode && taints.Tag == "!!null" && taints.Value != "":
		from := d.offset(taints)
		d.splice(from, from+len(taints.Value), d.list(next))
	case taints.Kind != yaml.SequenceNode || taints.Anchor != "":
		return ErrStyle
	case len(next) == 0 && flow(spec):
		parts := d.parts(spec)
		i := slices.Index(spec.Content, key) / 2
		d.put(parts.with(slices.Delete(slices.Clone(parts.elements), i, i+1)))
	case len(next) == 0:
		d.removeKey(spec, key, taints)
	case flow(taints):
		d.editFlow(taints, old, next)
	default:
		return d.editBlock(taints, old, next)
	}
	return nil
}

// pairs matches the old taints with the next by key and effect: the index in next, or -1. What nothing old matches is
// added, in order.
func pairs(old, next []corev1.Taint) (match []int, added []corev1.Taint) {
	taken := make([]bool, len(next))
	for _, o := range old {
		at := slices.IndexFunc(next, func(n corev1.Taint) bool { return n.MatchTaint(&o) })
		if at >= 0 && taken[at] {
			at = -1
		}
		if at >= 0 {
			taken[at] = true
		}
		match = append(match, at)
	}
	for i, n := range next {
		if !taken[i] {
			added = append(added, n)
		}
	}
	return match, added
}

func (d *document) editFlow(taints *yaml.Node, old, next []corev1.Taint) {
	parts := d.parts(taints)
	match, added := pairs(old, next)
	var kept []string
	for i, at := range match {
		switch {
		case at < 0:
		case sameTaint(old[i], next[at]):
			kept = append(kept, parts.elements[i])
		default:
			kept = append(kept, lead(parts.elements[i])+d.one(next[at]))
		}
	}
	parts = parts.with(kept)
	for _, t := range added {
		parts.add(d.one(t))
	}
	d.put(parts)
}

func (d *document) editBlock(taints *yaml.Node, old, next []corev1.Taint) error {
	indent := taints.Column - 1
	dash := func(line int) bool {
		return d.indent(line) == indent && bytes.HasPrefix(d.line(line)[indent:], []byte("-"))
	}
	end := d.lastLine(taints.Line-1, func(line int) bool { return d.indent(line) > indent || dash(line) })
	var starts []int
	for line := taints.Line - 1; line <= end; line++ {
		if d.content(line) && !d.literal[line] && dash(line) {
			starts = append(starts, line)
		}
	}
	if len(starts) != len(old) {
		return ErrStyle
	}
	starts = append(starts, end+1)
	match, added := pairs(old, next)
	for i, at := range match {
		switch {
		case at < 0:
			d.removeLines(starts[i], starts[i+1]-1)
		case !sameTaint(old[i], next[at]):
			if err := d.editItem(taints.Content[i], next[at]); err != nil {
				return err
			}
		}
	}
	if len(added) == 0 {
		return nil
	}
	lines := d.taintLines(indent, added)[1:]
	if len(taints.Content) > 0 && flow(taints.Content[0]) {
		lines = nil
		for _, t := range added {
			lines = append(lines, strings.Repeat(" ", indent)+"- "+d.one(t))
		}
	}
	d.insertAfter(end, lines)
	return nil
}

// editItem changes the value of one taint.
func (d *document) editItem(item *yaml.Node, next corev1.Taint) error {
	if item.Kind != yaml.MappingNode || item.Anchor != "" {
		return ErrStyle
	}
	if flow(item) {
		from := d.offset(item)
		d.splice(from, d.closing(from)+1, d.one(next))
		return nil
	}
	_, value := own(item, "value")
	key, name := own(item, "key")
	switch {
	case value != nil && next.Value != "":
		from := d.offset(value)
		d.splice(from, d.scalarEnd(value), d.scalar(next.Value))
	case value != nil:
		from := d.offset(value)
		d.splice(from, d.scalarEnd(value), `""`)
	case name != nil:
		d.scalarEnd(name) // of one line
		d.insertAfter(key.Line-1, []string{strings.Repeat(" ", key.Column-1) + "value: " + d.scalar(next.Value)})
	default:
		return ErrStyle
	}
	return nil
}

// removeKey takes a key of a block mapping out; where it is the only one its list stays, empty.
func (d *document) removeKey(spec, key, taints *yaml.Node) {
	indent := key.Column - 1
	first := key.Line - 1
	end := d.lastLine(first, func(line int) bool {
		return d.indent(line) > indent || d.indent(line) == indent && bytes.HasPrefix(d.line(line)[indent:], []byte("-"))
	})
	if len(spec.Content) > 2 {
		d.removeLines(first, end)
		return
	}
	if flow(taints) {
		from := d.offset(taints)
		d.splice(from, d.closing(from)+1, "[]")
		return
	}
	at := d.offset(key) + len("taints:")
	d.splice(at, at, " []")
	d.removeLines(first+1, end)
}

// taintLines are the lines of the key and its items.
func (d *document) taintLines(indent int, taints []corev1.Taint) []string {
	pad := strings.Repeat(" ", indent)
	lines := []string{pad + d.scalar("taints") + ":"}
	for _, t := range taints {
		for i, field := range fields(t) {
			lead := "  "
			if i == 0 {
				lead = "- "
			}
			lines = append(lines, pad+lead+d.scalar(field[0])+": "+d.scalar(field[1]))
		}
	}
	return lines
}

func fields(t corev1.Taint) [][2]string {
	all := [][2]string{{"key", t.Key}}
	if t.Value != "" {
		all = append(all, [2]string{"value", t.Value})
	}
	all = append(all, [2]string{"effect", string(t.Effect)})
	if t.TimeAdded != nil {
		all = append(all, [2]string{"timeAdded", t.TimeAdded.UTC().Format("2006-01-02T15:04:05Z")})
	}
	return all
}

// one is a taint in flow style.
func (d *document) one(t corev1.Taint) string {
	var words []string
	for _, f := range fields(t) {
		words = append(words, d.scalar(f[0])+": "+d.scalar(f[1]))
	}
	return "{" + strings.Join(words, ", ") + "}"
}

func (d *document) list(taints []corev1.Taint) string {
	words := make([]string, len(taints))
	for i, t := range taints {
		words[i] = d.one(t)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

var (
	plainScalar = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]*$`)
	otherScalar = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|true|false|null)$`)
)

// scalar is a string as YAML, or as JSON where the document is JSON.
func (d *document) scalar(s string) string {
	if !d.json && plainScalar.MatchString(s) && !otherScalar.MatchString(s) {
		return s
	}
	text, _ := json.Marshal(s) // a string has no error; JSON's quoting is YAML's, too
	return string(text)
}

// literals notes the lines of literal and folded text: what looks like a comment there is none.
func (d *document) literals(n *yaml.Node, parent int) {
	if n.Kind == yaml.ScalarNode && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		for line := n.Line; line < len(d.starts) && (d.blank(line) || d.indent(line) > parent); line++ {
			d.literal[line] = true
		}
	}
	for i, child := range n.Content {
		column := n.Column - 1
		if n.Kind == yaml.MappingNode {
			column = n.Content[i&^1].Column - 1
		}
		d.literals(child, column)
	}
}

func (d *document) line(i int) []byte {
	end := len(d.text)
	if i+1 < len(d.starts) {
		end = d.starts[i+1]
	}
	return d.text[d.starts[i]:end]
}

func (d *document) blank(i int) bool { return len(bytes.TrimSpace(d.line(i))) == 0 }

// content tells lines that hold something from blank ones and comments.
func (d *document) content(i int) bool {
	return d.literal[i] || !d.blank(i) && bytes.TrimLeft(d.line(i), " \t")[0] != '#'
}

func (d *document) indent(i int) int {
	line := d.line(i)
	return len(line) - len(bytes.TrimLeft(line, " "))
}

// lastLine is the last one of what begins on line first and goes on as long as within holds for lines with content.
func (d *document) lastLine(first int, within func(line int) bool) int {
	last := first
	for i := first + 1; i < len(d.starts); i++ {
		switch {
		case d.literal[i]:
			if !d.blank(i) {
				last = i
			}
		case !d.content(i):
		case within(i):
			last = i
		default:
			return last
		}
	}
	return last
}

// offset is where a node begins.
func (d *document) offset(n *yaml.Node) int {
	at := d.starts[n.Line-1]
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(d.text[at:])
		at += size
	}
	return at
}

// scalarEnd is where a scalar on one line ends.
func (d *document) scalarEnd(n *yaml.Node) int {
	at := d.offset(n)
	if q := d.text[at]; q == '"' || q == '\'' {
		return quoteEnd(d.text, at)
	}
	if n.Kind != yaml.ScalarNode || n.Anchor != "" || !bytes.HasPrefix(d.text[at:], []byte(n.Value)) {
		panic(ErrStyle)
	}
	return at + len(n.Value)
}

// quoteEnd is behind the quote that closes the one at at.
func quoteEnd(text []byte, at int) int {
	quote := text[at]
	for i := at + 1; ; i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
}

// closing is the bracket that closes the one at at.
func (d *document) closing(at int) int {
	end, _ := d.scan(at)
	return end
}

// scan goes through a flow collection that opens at at, and returns where it closes and where its commas are.
func (d *document) scan(at int) (end int, commas []int) {
	depth := 0
	for i := at; ; i++ {
		switch c := d.text[i]; c {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i, commas
			}
		case ',':
			if depth == 1 {
				commas = append(commas, i)
			}
		case '"', '\'':
			if prev := d.text[i-1]; strings.ContainsRune(" \t\r\n,:[{", rune(prev)) { // else it is within a plain scalar
				i = quoteEnd(d.text, i) - 1
			}
		case '#':
			if prev := d.text[i-1]; prev == ' ' || prev == '\t' || prev == '\n' {
				for d.text[i] != '\n' {
					i++
				}
			}
		}
	}
}

// flowParts are the elements of a flow collection with the blanks before each, and the blanks at its end.
type flowParts struct {
	from, to int // between the brackets
	elements []string
	tail     string
}

func (d *document) parts(n *yaml.Node) *flowParts {
	at := d.offset(n)
	end, commas := d.scan(at)
	p := &flowParts{from: at + 1, to: end}
	start := at + 1
	for _, c := range append(commas, end) {
		p.elements = append(p.elements, string(d.text[start:c]))
		start = c + 1
	}
	last := p.elements[len(p.elements)-1]
	trimmed := strings.TrimRight(last, " \t\r\n")
	p.tail = last[len(trimmed):]
	if strings.TrimSpace(last) == "" { // nothing is in it, or a comma is behind the last
		p.elements = p.elements[:len(p.elements)-1]
	} else {
		p.elements[len(p.elements)-1] = trimmed
	}
	return p
}

// lead are the blanks before what an element says.
func lead(element string) string {
	return element[:len(element)-len(strings.TrimLeft(element, " \t\r\n"))]
}

// with is the collection with some of its elements; the first stands as the first did.
func (p *flowParts) with(elements []string) *flowParts {
	changed := *p
	changed.elements = elements
	if len(elements) > 0 {
		elements[0] = lead(p.elements[0]) + strings.TrimLeft(elements[0], " \t\r\n")
	}
	return &changed
}

// add puts an element behind the others, as the last of them stands.
func (p *flowParts) add(text string) {
	before := ""
	if n := len(p.elements); n > 0 {
		before = cmp.Or(lead(p.elements[n-1]), " ")
	}
	p.elements = append(p.elements, before+text)
}

func (d *document) put(p *flowParts) {
	d.splice(p.from, p.to, strings.Join(p.elements, ",")+p.tail)
}

func (d *document) splice(from, to int, text string) {
	d.splices = append(d.splices, splice{from, to, text})
}

// insertAfter puts lines behind a line, which may be the last and without a break.
func (d *document) insertAfter(line int, lines []string) {
	at := d.starts[line] + len(d.line(line))
	text := strings.Join(lines, d.newline)
	if bytes.HasSuffix(d.line(line), []byte("\n")) {
		text += d.newline
	} else {
		text = d.newline + text
	}
	d.splice(at, at, text)
}

// removeLines takes out lines with content; comments and blank lines between them stay.
func (d *document) removeLines(first, last int) {
	for i := first; i <= last; i++ {
		if !d.content(i) {
			continue
		}
		from, to := d.starts[i], d.starts[i]+len(d.line(i))
		open := i // nothing but what goes is from here to the end of the text, which has no break: the one before goes
		for open < last && d.content(open+1) {
			open++
		}
		if to := d.starts[open] + len(d.line(open)); to == len(d.text) && from > 0 && d.text[to-1] != '\n' {
			d.splice(from-len(d.newline), to, "")
			return
		}
		d.splice(from, to, "")
	}
}

func (d *document) apply() []byte {
	slices.SortStableFunc(d.splices, func(a, b splice) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, s := range d.splices {
		out = append(out, d.text[at:max(at, s.from)]...)
		out = append(out, s.text...)
		at = max(at, s.to)
	}
	return append(out, d.text[at:]...)
}
