package manifest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/sops"
)

// Object is one object and where it was read. It never changes, Content included, and may be shared.
type Object struct {
	api.ID
	Content api.Object
	Origin  Origin
	// Sealed is what SOPS encrypted in Content, which stays as it is; nil if nothing is.
	Sealed *sops.Sealed

	text *text    // nil if the lines of fields are not known
	path []string // where in the document Content stands; empty but for items of a List
}

// Origin says where an object was read.
type Origin struct {
	// File is relative to the source, with slashes. For what kustomize built it is the kustomization file.
	File string
	// Document counts from 1 within File, or within what was built.
	Document int
	// Line is the first line of the object, counted from 1; 0 if it was built.
	Line int
}

// String is "file:line", or the file alone if no line is known.
func (o Origin) String() string {
	if o.Line == 0 {
		return o.File
	}
	return o.File + ":" + strconv.Itoa(o.Line)
}

// Line is the line of a field in the file, such as Line("spec", "ports", "0", "name"), counted from 1.
// If the field is not there it is the line of the nearest parent that is; 0 means unknown.
// It may be called concurrently.
func (o *Object) Line(path ...string) int {
	if o.text == nil {
		return o.Origin.Line
	}
	if line := o.text.line(o.path, path); line > 0 {
		return line
	}
	return o.Origin.Line
}

// Finding is a finding about the field at path, which is nil for the object as a whole. The message
// is the dotted path, a colon, and the text of format and args.
func (o *Object) Finding(sev render.Severity, code string, path []string, format string, args ...any) render.Finding {
	f := render.Finding{
		Severity: sev,
		Code:     code,
		File:     o.Origin.File,
		Line:     o.Line(path...),
		Message:  fmt.Sprintf(format, args...),
	}
	if f.Object = o.ID.String(); o.Name == "" {
		f.Object = o.Kind
	}
	if len(path) > 0 {
		f.Message = Dotted(path) + ": " + f.Message
	}
	return f
}

// Dotted writes a path as people do: spec.ports[0].name, metadata.labels[app.kubernetes.io/name].
func Dotted(path []string) string {
	var b strings.Builder
	for i, elem := range path {
		_, notNumber := strconv.ParseUint(elem, 10, 31)
		switch {
		case notNumber == nil || elem == "" || strings.ContainsAny(elem, "./[] "):
			b.WriteString("[" + elem + "]")
		case i == 0:
			b.WriteString(elem)
		default:
			b.WriteString("." + elem)
		}
	}
	return b.String()
}

// secret tells whether the object's values must not be shown.
func (o *Object) secret() bool { return o.Group == "" && o.Kind == "Secret" }
