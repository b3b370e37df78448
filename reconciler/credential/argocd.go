package credential

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/godwit-gitops/godwit/render"
)

// What marks a cluster Secret, and one whose cluster is to be left alone.
const (
	LabelSecretType         = "argocd.argoproj.io/secret-type"
	SecretTypeCluster       = "cluster"
	AnnotationSkipReconcile = "argocd.argoproj.io/skip-reconcile"
	// AnnotationMember, with the value "false", makes no member of a cluster Secret by itself.
	AnnotationMember = "godwit.dev/member"
)

// Topology labels that say where a cluster is.
const (
	labelRegion   = "topology.kubernetes.io/region"
	labelZone     = "topology.kubernetes.io/zone"
	labelProvider = "topology.kubernetes.io/provider"
)

// Entry is a cluster Secret of Argo CD.
type Entry struct {
	// Secret is its "namespace/name".
	Secret string
	Name   string
	Server string
	// Access is nil if Err says why it cannot be used.
	Access *Access
	Err    error
	// Namespaces are the only ones to be written to; empty means all. Then nothing without a namespace is
	// written, unless ClusterResources.
	Namespaces       []string
	ClusterResources bool
	// Paused: the cluster is to be left alone.
	Paused bool
	// NoMember: the cluster is no member unless a manifest says so.
	NoMember bool
	Project  string
	// Shard is the controller of Argo CD that serves it; nil means that Argo CD chooses.
	Shard                  *int
	Labels                 map[string]string
	Provider, Region, Zone string
}

var argoKeys = keys{"server", "config.proxyUrl", "config.tlsClientConfig.insecure", "config.tlsClientConfig.caData",
	"config.tlsClientConfig.certData", "config.tlsClientConfig.keyData", "config.bearerToken"}

// argoConfig is the JSON in the key config.
type argoConfig struct {
	Username        string `json:"username"`
	Password        string `json:"password"`
	BearerToken     string `json:"bearerToken"`
	TLSClientConfig struct {
		Insecure   bool   `json:"insecure"`
		ServerName string `json:"serverName"`
		CAData     string `json:"caData"`
		CertData   string `json:"certData"`
		KeyData    string `json:"keyData"`
	} `json:"tlsClientConfig"`
	ExecProviderConfig *struct {
		Command            string            `json:"command"`
		Args               []string          `json:"args"`
		Env                map[string]string `json:"env"`
		APIVersion         string            `json:"apiVersion"`
		InstallHint        string            `json:"installHint"`
		ProvideClusterInfo bool              `json:"provideClusterInfo"`
		Config             json.RawMessage   `json:"config"`
	} `json:"execProviderConfig"`
	AWSAuthConfig      *json.RawMessage `json:"awsAuthConfig"`
	ProxyURL           string           `json:"proxyUrl"`
	DisableCompression bool             `json:"disableCompression"`
}

// ArgoCD reads a cluster Secret. What it says of the cluster is there even if the credentials cannot be used.
func ArgoCD(s *corev1.Secret, rules Rules) (Entry, []render.Finding) {
	e := Entry{Secret: s.Namespace + "/" + s.Name, Paused: s.Annotations[AnnotationSkipReconcile] == "true", NoMember: s.Annotations[AnnotationMember] == "false"}
	var findings []render.Finding
	find := func(severity render.Severity, code, format string, args ...any) {
		findings = append(findings, render.Finding{Severity: severity, Code: code, Object: "Secret " + e.Secret, Message: fmt.Sprintf(format, args...)})
	}
	e.Server = strings.TrimRight(strings.TrimSpace(string(s.Data["server"])), "/")
	e.Name = cmp.Or(strings.TrimSpace(string(s.Data["name"])), e.Server)
	e.Project = strings.TrimSpace(string(s.Data["project"]))
	e.Labels = maps.Clone(s.Labels)
	delete(e.Labels, LabelSecretType)
	e.Region, e.Zone, e.Provider = e.Labels[labelRegion], e.Labels[labelZone], e.Labels[labelProvider]
	for n := range strings.SplitSeq(string(s.Data["namespaces"]), ",") {
		if n = strings.TrimSpace(n); n == "" {
			continue
		}
		if len(validation.IsDNS1123Label(n)) > 0 {
			// It stays in the list: without it the limit could be none.
			find(render.Error, "cluster-secret", "namespaces: %q is no namespace; write names with commas between them", n)
		}
		e.Namespaces = append(e.Namespaces, n)
	}
	slices.Sort(e.Namespaces)
	e.Namespaces = slices.Compact(e.Namespaces)
	if text := strings.TrimSpace(string(s.Data["clusterResources"])); text != "" {
		var err error
		if e.ClusterResources, err = strconv.ParseBool(text); err != nil {
			find(render.Error, "cluster-secret", "clusterResources: is neither \"true\" nor \"false\"; it counts as false")
		}
	}
	if text := strings.TrimSpace(string(s.Data["shard"])); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			find(render.Warning, "cluster-secret", "shard: is no number from 0; it counts as not there")
		} else {
			e.Shard = &n
		}
	}
	a, unknown, err := argoAccess(s.Data["config"], e.Server, rules)
	if len(unknown) > 0 {
		find(render.Warning, "cluster-secret", "config: %s: is not known here and does nothing", strings.Join(unknown, ", "))
	}
	if err != nil {
		for _, one := range parts(err) {
			find(render.Error, "cluster-secret", "%v; the credentials are not used", one)
		}
		e.Err = fmt.Errorf("Secret %s: %w", e.Secret, flat(err))
		return e, findings
	}
	e.Access = a
	if a.Insecure {
		find(render.Warning, "insecure-tls", "config.tlsClientConfig.insecure: whoever is between here and %s can read the credentials and answer in its place; give caData instead", e.Server)
	}
	return e, findings
}

// parts are the errors that were joined.
func parts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// flat says them on one line.
func flat(err error) error {
	var texts []string
	for _, one := range parts(err) {
		texts = append(texts, one.Error())
	}
	return errors.New(strings.Join(texts, "; "))
}

func argoAccess(config []byte, server string, rules Rules) (a *Access, unknown []string, err error) {
	var c argoConfig
	if len(bytes.TrimSpace(config)) > 0 {
		if err := json.Unmarshal(config, &c); err != nil {
			return nil, nil, wrong("config", "%s", jsonProblem(err))
		}
		unknown = unknownKeys(config)
	}
	if c.AWSAuthConfig != nil && string(*c.AWSAuthConfig) != "null" {
		return nil, unknown, wrong("config.awsAuthConfig", "needs a program of Argo CD's that is not here; use execProviderConfig with a program that clusters.execCommands lets run, or a bearerToken")
	}
	tls := c.TLSClientConfig
	a = &Access{
		Server: server, ProxyURL: c.ProxyURL, ServerName: tls.ServerName, Insecure: tls.Insecure,
		Token: c.BearerToken, Username: c.Username, Password: c.Password, DisableCompression: c.DisableCompression,
	}
	var errs []error
	for _, d := range []struct {
		key, text string
		into      *[]byte
	}{{argoKeys.ca, tls.CAData, &a.CA}, {argoKeys.cert, tls.CertData, &a.Cert}, {argoKeys.key, tls.KeyData, &a.Key}} {
		if d.text == "" {
			continue
		}
		if *d.into, err = base64.StdEncoding.DecodeString(d.text); err != nil {
			errs = append(errs, wrong(d.key, "is not in base64, which it is inside of the JSON, too"))
		}
	}
	if len(errs) > 0 {
		return nil, unknown, errors.Join(errs...)
	}
	if x := c.ExecProviderConfig; x != nil {
		a.Exec = &Exec{Command: x.Command, Args: x.Args, APIVersion: x.APIVersion, InstallHint: x.InstallHint, ProvideClusterInfo: x.ProvideClusterInfo}
		if string(x.Config) != "null" {
			a.Exec.Config = x.Config
		}
		for _, name := range slices.Sorted(maps.Keys(x.Env)) {
			a.Exec.Env = append(a.Exec.Env, Env{name, x.Env[name]})
		}
	}
	if err := a.check(rules, argoKeys); err != nil {
		return nil, unknown, err
	}
	return a, unknown, nil
}

// jsonProblem says what is wrong without a piece of the text.
func jsonProblem(err error) string {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return kind.Field + " is of another type than " + kind.Type.String()
	case errors.As(err, &syntax):
		return fmt.Sprintf("is no JSON, from byte %d on", syntax.Offset)
	}
	return "is no JSON object"
}

// knownKeys are those of the config and of what is in it.
var knownKeys = map[string][]string{
	"":                   {"username", "password", "bearerToken", "tlsClientConfig", "execProviderConfig", "awsAuthConfig", "proxyUrl", "disableCompression"},
	"tlsClientConfig":    {"insecure", "serverName", "caData", "certData", "keyData"},
	"execProviderConfig": {"command", "args", "env", "apiVersion", "installHint", "provideClusterInfo", "config"},
}

// unknownKeys are those of a valid config that nothing reads, sorted. A key is what a person wrote, so that one that is
// not like a word is not repeated.
func unknownKeys(config []byte) []string {
	var unknown []string
	for _, at := range slices.Sorted(maps.Keys(knownKeys)) {
		var all map[string]json.RawMessage
		if json.Unmarshal(config, &all) != nil {
			return nil
		}
		prefix := ""
		if at != "" {
			prefix = at + "."
			inner := all[at]
			all = nil
			if len(inner) == 0 || json.Unmarshal(inner, &all) != nil {
				continue
			}
		}
		for key := range all {
			switch {
			case slices.ContainsFunc(knownKeys[at], func(k string) bool { return strings.EqualFold(k, key) }):
			case len(key) > 40 || len(validation.IsQualifiedName(key)) > 0:
				unknown = append(unknown, prefix+"(a key that is no word)")
			default:
				unknown = append(unknown, prefix+key)
			}
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}
