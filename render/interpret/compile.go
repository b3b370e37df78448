package interpret

import (
	"errors"
	"fmt"
	"slices"

	configv1alpha1 "github.com/godwit-gitops/godwit/api/config/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// The codes of the findings about customizations.
const (
	codeCustomization = "customization"
	codeScript        = "customization-fails"
)

// Compile is Check and CompileWebhooks for customizations and webhook configurations as they stand in
// files: what is wrong with one, unknown fields included, is a finding there.
func Compile(objects []*manifest.Object) (*Interpreter, []render.Finding) {
	var customizations []*configv1alpha1.ResourceInterpreterCustomization
	var configurations []*manifest.Object
	var findings []render.Finding
	origins := map[string]*manifest.Object{}
	for _, o := range objects {
		if o.Kind == configv1alpha1.KindResourceInterpreterWebhookConfiguration {
			configurations = append(configurations, o)
			continue
		}
		c, found := manifest.Decode[configv1alpha1.ResourceInterpreterCustomization](o)
		findings = append(findings, found...)
		if c != nil {
			customizations = append(customizations, c)
			origins[c.Name] = o
		}
	}
	i, problems := Check(customizations)
	i.origins = origins
	for _, p := range problems {
		findings = append(findings, finding(origins[p.Customization], codeCustomization, p.Field, p.Line, p.Message))
	}
	webhooks, found := CompileWebhooks(configurations)
	return i.WithWebhooks(webhooks), append(findings, found...)
}

// finding is about a script, or about the whole customization if field is empty. Lines of a script
// count from where it begins, so the one of the file is that of the script.
func finding(o *manifest.Object, code, field string, line int, message string) render.Finding {
	path := []string{"spec"}
	if field != "" {
		path = append(path, "customizations", field, "luaScript")
	}
	if line > 0 {
		message = fmt.Sprintf("%s (line %d of the script)", message, line)
	}
	return o.Finding(render.Error, code, path, "%s", message)
}

// Failures collects what scripts of customizations gave no answer to. The zero value is empty.
type Failures struct {
	asked map[ScriptError][]string
}

// Add notes err, if it is that of a user's script, as the answer to a question. It tells whether it is.
func (f *Failures) Add(err error, question string) bool {
	var failure *ScriptError
	if !errors.As(err, &failure) || failure.Field == "" {
		return false
	}
	if f.asked == nil {
		f.asked = map[ScriptError][]string{}
	}
	f.asked[*failure] = append(f.asked[*failure], question)
	return true
}

// Findings has one finding for each way in which a script failed, where the customization stands:
// one broken rule is one line, whatever the number of its objects.
func (i *Interpreter) Findings(f Failures) []render.Finding {
	var findings []render.Finding
	for failure, asked := range f.asked {
		o := i.origins[failure.Customization]
		if o == nil {
			continue
		}
		slices.Sort(asked)
		asked = slices.Compact(asked)
		what := asked[0]
		if n := len(asked) - 1; n > 0 {
			what = fmt.Sprintf("%s and %d more", what, n)
		}
		findings = append(findings, finding(o, codeScript, failure.Field, failure.Line, fmt.Sprintf("%s: %s: %s", failure.Function, what, failure.Reason)))
	}
	slices.SortFunc(findings, render.Finding.Compare)
	return findings
}
