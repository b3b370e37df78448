package interpret

import (
	"encoding/json"
	"math"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/api"
	configv1alpha1 "github.com/godwit-gitops/godwit/api/config/v1alpha1"
)

// yamlObject reads YAML the way manifests are read: whole numbers are int64.
func yamlObject(text string) api.Object {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	return object(shaped(v))
}

// shaped makes what encoding/json gives JSON-shaped in our sense.
func shaped(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = shaped(v[name])
		}
	case []any:
		for n := range v {
			v[n] = shaped(v[n])
		}
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	}
	return v
}

func customization(name, apiVersion, kind string, rules configv1alpha1.CustomizationRules) *configv1alpha1.ResourceInterpreterCustomization {
	return &configv1alpha1.ResourceInterpreterCustomization{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
			Target:         configv1alpha1.CustomizationTarget{APIVersion: apiVersion, Kind: kind},
			Customizations: rules,
		},
	}
}

// interpreter has the rules for Deployments.
func interpreter(tb testing.TB, rules configv1alpha1.CustomizationRules) *Interpreter {
	tb.Helper()
	i, problems := New([]*configv1alpha1.ResourceInterpreterCustomization{customization("web", "apps/v1", "Deployment", rules)})
	if len(problems) > 0 {
		tb.Fatal(problems)
	}
	return i
}

func jsonText(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(out)
}
