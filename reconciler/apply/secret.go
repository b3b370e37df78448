package apply

import (
	"encoding/base64"
	"maps"

	"github.com/godwit-gitops/godwit/api"
)

// withData moves a Secret's stringData into its data, as the API server does on every write.
func withData(o api.Object) api.Object {
	texts, ok := o["stringData"].(map[string]any)
	if !ok {
		return o
	}
	data, _ := o["data"].(map[string]any)
	if data = maps.Clone(data); data == nil {
		data = map[string]any{}
	}
	for name, v := range texts {
		if text, ok := v.(string); ok {
			data[name] = base64.StdEncoding.EncodeToString([]byte(text))
		}
	}
	o = with(o, "data", data)
	delete(o, "stringData") // o is a copy by now
	return o
}
