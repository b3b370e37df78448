package policy

import (
	"fmt"

	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// Path leads to a field of a manifest; positions in lists are decimal numbers.
type Path []string

// At is the path one or more steps further down: field names and list positions.
func (p Path) At(steps ...any) Path {
	next := make(Path, len(p), len(p)+len(steps))
	copy(next, p)
	for _, step := range steps {
		next = append(next, fmt.Sprint(step))
	}
	return next
}

// Report gathers the findings about one object. The zero value with an Object is ready to use.
type Report struct {
	Object   *manifest.Object
	Findings []render.Finding
}

// Failed tells whether there is an error among the findings.
func (r *Report) Failed() bool {
	for _, f := range r.Findings {
		if f.Severity == render.Error {
			return true
		}
	}
	return false
}

// Add takes over findings made elsewhere.
func (r *Report) Add(findings []render.Finding) { r.Findings = append(r.Findings, findings...) }

// Error, Warning and Info report on the field at a path; the message says what is wrong and what to do.
func (r *Report) Error(code string, at Path, format string, args ...any) {
	r.report(render.Error, code, at, format, args)
}

// Warning reports something that works, but probably not as meant.
func (r *Report) Warning(code string, at Path, format string, args ...any) {
	r.report(render.Warning, code, at, format, args)
}

// Info reports something the author may want to know.
func (r *Report) Info(code string, at Path, format string, args ...any) {
	r.report(render.Info, code, at, format, args)
}

func (r *Report) report(severity render.Severity, code string, at Path, format string, args []any) {
	r.Findings = append(r.Findings, r.Object.Finding(severity, code, at, format, args...))
}

// OneOf reports a value that is none of the words allowed. An empty value passes.
func OneOf[T ~string](r *Report, at Path, value T, allowed ...T) {
	if value == "" {
		return
	}
	words := ""
	for i, word := range allowed {
		if value == word {
			return
		}
		switch {
		case i == 0:
		case i == len(allowed)-1:
			words += " or "
		default:
			words += ", "
		}
		words += string(word)
	}
	r.Error("unknown-value", at, "%q is not allowed here; write %s", value, words)
}

// Required reports a text that is missing.
func (r *Report) Required(at Path, value string) {
	if value == "" {
		r.Error("missing-value", at, "is required; add it")
	}
}
