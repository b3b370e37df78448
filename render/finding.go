// Package render holds the words its subpackages share: what a finding is and what a verdict is.
// Everything below it turns text into objects and objects into other objects; nothing does I/O.
package render

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity ranks findings. An error means that something in the input is not used.
type Severity string

const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is something in the input that its author should know of.
type Finding struct {
	Severity Severity `json:"severity"`
	// Code is stable and for machines: lower case words joined by dashes, such as "unknown-field".
	Code string `json:"code"`
	// File is relative to the source; Line counts from 1, 0 means the whole file.
	File string `json:"file"`
	Line int    `json:"line"`
	// Object is "Kind namespace/name", empty where no object could be read.
	Object string `json:"object,omitempty"`
	// Message says what is wrong with which field and what to do.
	Message string `json:"message"`
}

// String is "file:line: severity: code: object: message", as compilers print it.
func (f Finding) String() string {
	where := ""
	switch {
	case f.File == "": // it is about no file, such as a member's deletions
	case f.Line > 0:
		where = fmt.Sprintf("%s:%d: ", f.File, f.Line)
	default:
		where = f.File + ": "
	}
	if f.Object == "" {
		return fmt.Sprintf("%s%s: %s: %s", where, f.Severity, f.Code, f.Message)
	}
	return fmt.Sprintf("%s%s: %s: %s: %s", where, f.Severity, f.Code, f.Object, f.Message)
}

// Compare orders by file, line, code, object and message.
func (f Finding) Compare(other Finding) int {
	return cmp.Or(
		cmp.Compare(f.File, other.File),
		cmp.Compare(f.Line, other.Line),
		cmp.Compare(f.Code, other.Code),
		cmp.Compare(f.Object, other.Object),
		cmp.Compare(f.Message, other.Message),
	)
}

// MostFindings is how many findings of one code are listed of one file. Who has a hundred knows what is wrong.
const MostFindings = 100

// More stands for the findings of one code that are not listed of a file.
func More(file, code string, worst Severity, n int) Finding {
	return Finding{Severity: worst, Code: "more-findings", File: file, Message: fmt.Sprintf("%d more of code %s are in this file and not listed", n, code)}
}

// Worse is the more severe of two; an empty one is less than any.
func Worse(a, b Severity) Severity {
	rank := map[Severity]int{Info: 1, Warning: 2, Error: 3}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// Limit leaves of sorted findings so many of one code and file as are listed, and counts the others, with what is about the
// whole file. What is about no file is left as it is.
func Limit(sorted []Finding) []Finding {
	type group struct{ file, code string }
	total := map[group]int{}
	for _, f := range sorted {
		total[group{f.File, f.Code}]++
	}
	listed, worst := map[group]int{}, map[group]Severity{}
	limited := sorted[:0:0]
	for _, f := range sorted {
		g := group{f.File, f.Code}
		if listed[g]++; f.File == "" || listed[g] <= MostFindings {
			limited = append(limited, f)
			continue
		}
		worst[g] = Worse(worst[g], f.Severity)
		if listed[g] == total[g] {
			limited = append(limited, More(f.File, f.Code, worst[g], total[g]-MostFindings))
		}
	}
	slices.SortStableFunc(limited, Finding.Compare)
	return limited
}
