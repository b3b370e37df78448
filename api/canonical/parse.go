package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"

	"github.com/godwit-gitops/godwit/api"
)

// Parse reads the one YAML or JSON document in data as Kubernetes reads it (YAML 1.1, the last of
// equal keys wins): integers that fit are int64, other numbers float64. An empty document is nil
// without an error; a document that holds no mapping, and a second document, are errors.
func Parse(data []byte) (api.Object, error) {
	v, _, err := Decode(data)
	switch v := v.(type) {
	case map[string]any:
		return v, err
	case nil:
		return nil, err
	default:
		return nil, errors.New("the document is no mapping")
	}
}

// Decode is Parse for a document that may hold anything. Repeated is false if no key stands twice in
// one mapping; it is true also for a key that overrides a merged ("<<") one.
func Decode(data []byte) (v any, repeated bool, err error) {
	if v, err = decode(data, true); err != nil {
		repeated = true
		if v, err = decode(data, false); err != nil {
			if v, err = decodeJSON(data, err); err != nil {
				return nil, false, err
			}
		}
	}
	v, err = shape(v)
	return v, repeated, err
}

func decode(data []byte, strict bool) (v any, err error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.SetStrict(strict)
	if err := d.Decode(&v); err != nil {
		if err == io.EOF { // not even a null
			return nil, nil
		}
		return nil, err
	}
	switch err := d.Decode(new(any)); err {
	case io.EOF:
		return v, nil
	case nil:
		return nil, errors.New("there is a second document")
	default:
		return nil, err
	}
}

// decodeJSON reads JSON that is no YAML 1.1, such as "\ud83d\ude00"; err says why it is none.
func decodeJSON(data []byte, err error) (v any, _ error) {
	if !json.Valid(data) {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// shape turns what the YAML library makes into JSON-shaped values, as a trip through JSON text would.
func shape(v any) (any, error) {
	switch v := v.(type) {
	case map[any]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			key, err := keyText(k)
			if err != nil {
				return nil, err
			}
			if m[key], err = shape(e); err != nil {
				return nil, err
			}
		}
		if len(m) < len(v) {
			return nil, errors.New("two keys of one mapping are the same text, such as 1 and \"1\"")
		}
		return m, nil
	case []any:
		for i, e := range v {
			var err error
			if v[i], err = shape(e); err != nil {
				return nil, err
			}
		}
		return v, nil
	case string:
		return validText(v), nil
	case int:
		return int64(v), nil
	case uint64:
		return number(strconv.FormatUint(v, 10)), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%v is no number that JSON can hold", v)
		}
		return number(jsonFloat(v)), nil
	case json.Number:
		f, err := v.Float64()
		if _, isInt := number(v.String()).(int64); isInt || err != nil {
			return number(v.String()), err
		}
		return number(jsonFloat(f)), nil
	case map[string]any: // from JSON
		for k, e := range v {
			var err error
			if v[k], err = shape(e); err != nil {
				return nil, err
			}
		}
		return v, nil
	default: // nil, bool, int64
		return v, nil
	}
}

// number reads a JSON number: an integer if it fits.
func number(text string) any {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i
	}
	f, _ := strconv.ParseFloat(text, 64) // formatted from a finite number
	return f
}

// jsonFloat is f as encoding/json writes it, as far as integers are concerned.
func jsonFloat(f float64) string {
	if math.Abs(f) < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'e', -1, 64)
}

func keyText(k any) (string, error) {
	switch k := k.(type) {
	case string:
		return validText(k), nil
	case int:
		return strconv.Itoa(k), nil
	case int64:
		return strconv.FormatInt(k, 10), nil
	case bool:
		return strconv.FormatBool(k), nil
	case float64:
		switch s := strconv.FormatFloat(k, 'g', -1, 32); s {
		case "+Inf":
			return ".inf", nil
		case "-Inf":
			return "-.inf", nil
		case "NaN":
			return ".nan", nil
		default:
			return s, nil
		}
	default:
		return "", fmt.Errorf("a key is %v, which is no text", k)
	}
}

// validText replaces each byte that is not UTF-8, as encoding/json does. Only !!binary brings such bytes.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
