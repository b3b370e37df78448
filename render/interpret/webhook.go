package interpret

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	fieldpath "k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/godwit-gitops/godwit/api"
	configv1alpha1 "github.com/godwit-gitops/godwit/api/config/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/policy"
)

// Webhook is a server that says what kinds mean. It is never changed.
type Webhook struct {
	// Configuration and Name tell it from others.
	Configuration, Name string
	// Source is the configuration, and Index the webhook's position in it.
	Source *manifest.Object
	Index  int
	// URL is where to ask; its scheme is https.
	URL string
	// CABundle is PEM; empty means the roots of the machine.
	CABundle []byte
	// Timeout is for one answer.
	Timeout time.Duration

	rules []configv1alpha1.RuleWithOperations
	// identity is of what its answers depend on.
	identity [sha256.Size]byte
}

// String is "configuration/name".
func (w *Webhook) String() string { return w.Configuration + "/" + w.Name }

// Finding is a finding about the webhook.
func (w *Webhook) Finding(sev render.Severity, code, format string, args ...any) render.Finding {
	return w.Source.Finding(sev, code, []string{"webhooks", fmt.Sprint(w.Index)}, format, args...)
}

// Limits of a webhook's timeoutSeconds, and what holds without one.
//
// Differs from Karmada: there a webhook without timeoutSeconds may take as long as it likes.
const (
	minTimeout     = 1
	maxTimeout     = 30
	defaultTimeout = 10
)

// contextVersion is the version of questions and answers.
const contextVersion = "v1alpha1"

// CompileWebhooks reads configurations. One with an error gives no webhooks. They are sorted in the
// order in which they are asked: of several that match the first answers.
func CompileWebhooks(configurations []*manifest.Object) ([]*Webhook, []render.Finding) {
	var all []*Webhook
	var findings []render.Finding
	for _, o := range configurations {
		c, found := manifest.Decode[configv1alpha1.ResourceInterpreterWebhookConfiguration](o)
		findings = append(findings, found...)
		if c == nil {
			continue
		}
		r := &policy.Report{Object: o}
		hooks := compileWebhooks(r, c)
		findings = append(findings, r.Findings...)
		if !r.Failed() {
			all = append(all, hooks...)
		}
	}
	slices.SortFunc(all, func(a, b *Webhook) int { return cmp.Compare(a.String(), b.String()) })
	return all, findings
}

func compileWebhooks(r *policy.Report, c *configv1alpha1.ResourceInterpreterWebhookConfiguration) []*Webhook {
	var hooks []*Webhook
	taken := map[string]bool{}
	for i := range c.Webhooks {
		w, at := &c.Webhooks[i], policy.Path{"webhooks"}.At(i)
		if err := validation.IsFullyQualifiedName(fieldpath.NewPath("name"), w.Name).ToAggregate(); err != nil {
			r.Error("webhook-name", at.At("name"), "%q is no fully qualified domain name of three parts or more, such as replicas.interpreter.example.com", w.Name)
		}
		if taken[w.Name] {
			r.Error("duplicate-webhook-name", at.At("name"), "%q is the name of an earlier webhook; choose another one", w.Name)
		}
		taken[w.Name] = true
		hook := &Webhook{Configuration: c.Name, Name: w.Name, Source: r.Object, Index: i, CABundle: w.ClientConfig.CABundle, rules: w.Rules}
		hook.URL = checkClientConfig(r, at.At("clientConfig"), &w.ClientConfig)
		hook.Timeout = checkTimeout(r, at.At("timeoutSeconds"), w.TimeoutSeconds)
		checkContextVersions(r, at.At("interpreterContextVersions"), w.InterpreterContextVersions)
		checkWebhookRules(r, at.At("rules"), w.Rules)
		hook.identity = identityOf(hook, c)
		hooks = append(hooks, hook)
	}
	if len(c.Webhooks) == 0 {
		r.Warning("no-effect", policy.Path{"webhooks"}, "is empty, so no webhook is asked; add one")
	}
	return hooks
}

// identityOf is of the webhook's address and of the marks on its configuration: a mark that changes
// has everything asked anew.
func identityOf(w *Webhook, c *configv1alpha1.ResourceInterpreterWebhookConfiguration) [sha256.Size]byte {
	text, err := json.Marshal([]any{w.Configuration, w.Name, w.URL, w.CABundle, c.Labels, c.Annotations})
	if err != nil {
		panic(err) // texts alone
	}
	return sha256.Sum256(text)
}

// checkClientConfig returns the URL.
func checkClientConfig(r *policy.Report, at policy.Path, c *configv1alpha1.WebhookClientConfig) string {
	if len(c.CABundle) > 0 && !x509.NewCertPool().AppendCertsFromPEM(c.CABundle) {
		r.Error("webhook-ca", at.At("caBundle"), "holds no certificate in PEM; give the certificate of the authority, base64-encoded, or take the field out")
	}
	switch {
	case (c.URL == nil) == (c.Service == nil):
		r.Error("webhook-address", at, "give exactly one of url and service")
	case c.URL != nil:
		return checkURL(r, at.At("url"), *c.URL)
	default:
		return checkService(r, at.At("service"), c.Service)
	}
	return ""
}

func checkURL(r *policy.Report, at policy.Path, text string) string {
	const code = "webhook-url"
	u, err := url.Parse(text)
	switch {
	case err != nil:
		r.Error(code, at, "is no URL; write it like https://interpreter.example.com:8443/interpret")
	case u.Scheme != "https":
		r.Error(code, at, "must begin with https://, since objects go over it")
	case u.Hostname() == "":
		r.Error(code, at, "names no host; write it like https://interpreter.example.com:8443/interpret")
	case u.User != nil:
		r.Error(code, at, "may not carry a user or password; let the server tell its callers apart in another way")
	case u.Fragment != "" || u.RawQuery != "" || u.ForceQuery:
		r.Error(code, at, "may not have a query or fragment; use the path instead")
	}
	return text
}

// checkService gives the Service's name in the cluster that godwit runs in.
//
// Differs from Karmada: it looks the Service up in its control plane first, for an address or an
// external name; there is no such place here.
func checkService(r *policy.Report, at policy.Path, s *configv1alpha1.ServiceReference) string {
	for _, part := range [][2]string{{"namespace", s.Namespace}, {"name", s.Name}} {
		switch {
		case part[1] == "":
			r.Required(at.At(part[0]), part[1])
		case len(validation.IsDNS1123Label(part[1])) > 0: // Services allow less, and the API server checks that
			r.Error("webhook-service", at.At(part[0]), "%q is no name of lower case letters, digits and dashes", part[1])
		}
	}
	port, path := int32(443), ""
	if s.Port != nil {
		port = *s.Port
		if port < 1 || port > 65535 {
			r.Error("webhook-service", at.At("port"), "%d is no port from 1 to 65535", port)
		}
	}
	if s.Path != nil {
		path = *s.Path
		if u, err := url.Parse(path); !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || err != nil || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
			r.Error("webhook-service", at.At("path"), "%q must be the path of a URL that begins with one /, without query and fragment", path)
		}
	}
	r.Info("webhook-service", at, "is asked as %s.%s.svc of the cluster that godwit runs in; outside of a cluster give a url", s.Name, s.Namespace)
	return fmt.Sprintf("https://%s.%s.svc:%d%s", s.Name, s.Namespace, port, path)
}

func checkTimeout(r *policy.Report, at policy.Path, seconds *int32) time.Duration {
	if seconds == nil {
		return defaultTimeout * time.Second
	}
	if *seconds < minTimeout || *seconds > maxTimeout {
		r.Error("webhook-timeout", at, "%d is not from %d to %d", *seconds, minTimeout, maxTimeout)
	}
	return time.Duration(*seconds) * time.Second
}

func checkContextVersions(r *policy.Report, at policy.Path, versions []string) {
	seen := map[string]bool{}
	for i, v := range versions {
		if seen[v] {
			r.Error("webhook-versions", at.At(i), "%q stands twice; take one out", v)
		}
		seen[v] = true
	}
	if !seen[contextVersion] {
		r.Error("webhook-versions", at, "must have %s, the version in which questions are asked", contextVersion)
	}
}

// known are the words of an operation list.
var known = func() []string {
	words := []string{wildcard}
	for _, o := range operations {
		words = append(words, string(o.operation))
	}
	return words
}()

// wildcard in a list of a rule stands for all.
const wildcard = "*"

func checkWebhookRules(r *policy.Report, at policy.Path, rules []configv1alpha1.RuleWithOperations) {
	if len(rules) == 0 {
		r.Warning("no-effect", at, "is empty, so the webhook is never asked; say for what")
	}
	for i, rule := range rules {
		at := at.At(i)
		for _, list := range []struct {
			field string
			words []string
			empty bool // the empty word means something
		}{
			{"operations", rule.Operations, false}, {"apiGroups", rule.APIGroups, true},
			{"apiVersions", rule.APIVersions, false}, {"kinds", rule.Kinds, false},
		} {
			at := at.At(list.field)
			switch {
			case len(list.words) == 0:
				r.Error("missing-value", at, `is required; "*" stands for all`)
			case len(list.words) > 1 && slices.Contains(list.words, wildcard):
				r.Error("webhook-rule", at, `has "*" among others; "*" stands for all and must be alone`)
			}
			for i, word := range list.words {
				switch {
				case word == "" && !list.empty:
					r.Error("missing-value", at.At(i), "is empty; take it out")
				case list.field == "operations":
					policy.OneOf(r, at.At(i), word, known...)
				}
			}
		}
		if slices.Contains(rule.Kinds, secretKind) && slices.ContainsFunc(rule.APIGroups, func(g string) bool { return g == "" || g == wildcard }) {
			r.Warning("no-effect", at.At("kinds"), "Secrets are never sent to a webhook")
		}
	}
}

const secretKind = "Secret"

// answers tells whether the webhook is to be asked.
//
// Differs from Karmada: the values of a Secret leave godwit for members alone; and "*" among the
// operations leaves out InterpretComponent, which Karmada asks behind a feature gate that is off, so that
// servers made without it go on working.
func (w *Webhook) answers(k kind, op Operation) bool {
	if k.group == "" && k.name == secretKind {
		return false
	}
	return slices.ContainsFunc(w.rules, func(r configv1alpha1.RuleWithOperations) bool {
		return (slices.Contains(r.Operations, string(op)) || op != InterpretComponent && slices.Contains(r.Operations, wildcard)) &&
			matches(r.APIGroups, k.group) && matches(r.APIVersions, k.version) && matches(r.Kinds, k.name)
	})
}

func matches(words []string, word string) bool {
	return slices.Contains(words, word) || slices.Contains(words, wildcard)
}

// Names tells whether a rule of the webhook names the operation itself.
func (w *Webhook) Names(op Operation) bool {
	return slices.ContainsFunc(w.rules, func(r configv1alpha1.RuleWithOperations) bool { return slices.Contains(r.Operations, string(op)) })
}

// WithWebhooks is the interpreter with webhooks, which CompileWebhooks gave. They have no say until
// Hearing gives it their answers.
func (i *Interpreter) WithWebhooks(webhooks []*Webhook) *Interpreter {
	out := *i
	out.webhooks = webhooks
	return &out
}

// Webhooks are those in force, in the order in which they are asked.
func (i *Interpreter) Webhooks() []*Webhook { return i.webhooks }

// Webhook is the one whose answer counts for the operation on a kind; nil if that is for another layer.
func (i *Interpreter) Webhook(id api.ID, op Operation) *Webhook { return i.webhook(kindOfID(id), op) }

func (i *Interpreter) webhook(k kind, op Operation) *Webhook {
	if len(i.user[rule{k, op}]) > 0 {
		return nil
	}
	for _, w := range i.webhooks {
		if w.answers(k, op) {
			return w
		}
	}
	return nil
}

// Asks tells whether a webhook has a say about the kind, for whatever operation.
func (i *Interpreter) Asks(id api.ID) bool {
	return len(i.webhooks) > 0 && slices.ContainsFunc(operations, func(o operationRule) bool { return i.Webhook(id, o.operation) != nil })
}

// Answers finds what webhooks answered.
type Answers interface {
	// Answer returns nil if the question was not answered yet.
	Answer(Key) *Answer
}

// Hearing is the interpreter with the webhooks' answers. A method whose answer is missing returns an
// *UnansweredError. Without Hearing the layer of webhooks is left out: the next one answers.
func (i *Interpreter) Hearing(answers Answers) *Interpreter {
	out := *i
	out.answers = answers
	return &out
}
