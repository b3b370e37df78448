package interpret

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
)

// at is the value under path, nil if anything on the way is missing or no map.
func at(v any, path ...string) any {
	for _, field := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[field]
	}
	return v
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// number is v as a whole number; what is no number counts as 0, which is how Kubernetes reads a
// missing counter.
func number(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case float64:
		if n >= math.MinInt64 && n < math.MaxInt64 {
			return int64(n)
		}
	}
	return 0
}

// count reads a number of replicas. ok is false where nothing is set.
func count(o map[string]any, path ...string) (n int32, ok bool, err error) {
	whole := int64(-1)
	v := at(o, path...)
	switch n := v.(type) {
	case nil:
		return 0, false, nil
	case int64:
		whole = n
	case float64:
		if float64(number(n)) == n {
			whole = number(n)
		}
	}
	if whole < 0 || whole > math.MaxInt32 {
		have := fmt.Sprint(v)
		if s, ok := v.(string); ok {
			have = strconv.Quote(s) // a number in quotes is none
		}
		return 0, false, fmt.Errorf("%s: want a whole number from 0 to %d, have %s", strings.Join(path, "."), math.MaxInt32, have)
	}
	return int32(whole), true, nil
}

// with is o with value at path. Maps on the way are copied, missing ones are made; the rest is
// shared with o.
func with(o map[string]any, value any, path ...string) map[string]any {
	out := maps.Clone(o)
	if out == nil {
		out = make(map[string]any, 1)
	}
	if len(path) == 1 {
		out[path[0]] = value
	} else {
		out[path[0]] = with(object(o[path[0]]), value, path[1:]...)
	}
	return out
}

// without is o with the fields gone from the map at path; o itself if none of them is there. Maps
// that become empty stay.
func without(o map[string]any, path []string, fields ...string) map[string]any {
	holder, found := object(at(o, path...)), false
	for _, field := range fields {
		_, has := holder[field]
		found = found || has
	}
	if !found {
		return o
	}
	kept := maps.Clone(holder)
	for _, field := range fields {
		delete(kept, field)
	}
	if len(path) == 0 {
		return kept
	}
	return with(o, kept, path...)
}

// condition is the entry of status.conditions with the type; nil if there is none.
func condition(status any, kind string) map[string]any {
	for _, c := range list(at(status, "conditions")) {
		if text(at(c, "type")) == kind {
			return object(c)
		}
	}
	return nil
}

func isTrue(condition map[string]any) bool { return text(condition["status"]) == "True" }
