package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/godwit-gitops/godwit/render"
)

// noFile is where a finding about no file is shown, such as one about a member that is gone: a forge takes no
// result that is nowhere, and does not look whether the file is there.
const noFile = "godwit.yaml"

// SARIF is findings in the form that code scanning reads (SARIF 2.1.0), with the fields that forges ask for. Their
// files are below root, a path of the repository; empty means that they are at its top.
func SARIF(version, root string, findings []render.Finding) any {
	return sarif(version, root, findings, func(int) string { return "" })
}

// SARIF is that of the plan's findings. Where it was compared, each says whether it was there before.
func (p *Plan) SARIF(version, root string) any {
	findings := make([]render.Finding, len(p.Findings))
	for i, f := range p.Findings {
		findings[i] = f.Finding
	}
	return sarif(version, root, findings, func(i int) string {
		switch {
		case !p.compared:
			return ""
		case p.Findings[i].Known:
			return "unchanged"
		}
		return "new"
	})
}

func sarif(version, root string, findings []render.Finding, state func(int) string) any {
	position := map[string]int{}
	rules := []sarifRule{}
	for _, f := range findings {
		if _, known := position[f.Code]; known {
			continue
		}
		position[f.Code] = 0
		name := strings.ReplaceAll(f.Code, "-", " ")
		rules = append(rules, sarifRule{
			ID: f.Code, Short: sarifText{name}, Full: sarifText{"godwit: " + name},
			Help: sarifText{"The message says what is wrong with which field, and what to do. \"godwit validate\" prints it before a push, \"godwit plan\" with all that a change does."},
		})
	}
	slices.SortFunc(rules, func(a, b sarifRule) int { return cmp.Compare(a.ID, b.ID) })
	for i, r := range rules {
		position[r.ID] = i
	}
	results := []sarifResult{}
	seen := map[string]int{}
	for i, f := range findings {
		message := f.Message
		if f.Object != "" {
			message = f.Object + ": " + message
		}
		result := sarifResult{RuleID: f.Code, RuleIndex: position[f.Code], Level: sarifLevel[f.Severity], Message: sarifText{clean(message)}, State: state(i)}
		location := sarifLocation{}
		uri := fileURI(root, f.File)
		location.Physical.Artifact.URI, location.Physical.Artifact.Base = uri, "%SRCROOT%"
		// Lines count from 1; a finding about a whole file is shown at its top.
		location.Physical.Region.StartLine = max(1, f.Line)
		result.Locations = []sarifLocation{location}
		// A result stays the same one when lines above it come and go.
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", f.Code, uri, f.Object, f.Message))
		print := hex.EncodeToString(sum[:8])
		seen[print]++
		result.Fingerprints.Line = fmt.Sprintf("%s:%d", print, seen[print])
		results = append(results, result)
	}
	run := sarifRun{Results: results}
	run.Tool.Driver = sarifDriver{Name: "godwit", Version: version, Rules: rules}
	return sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
}

// fileURI is relative to the repository.
func fileURI(root, file string) string {
	if file == "" {
		return noFile
	}
	u := url.URL{Path: path.Join(root, clean(file))}
	return u.String()
}

var sarifLevel = map[render.Severity]string{render.Error: "error", render.Warning: "warning", render.Info: "note"}

type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID    string    `json:"id"`
		Short sarifText `json:"shortDescription"`
		Full  sarifText `json:"fullDescription"`
		Help  sarifText `json:"help"`
	}
	sarifResult struct {
		RuleID       string          `json:"ruleId"`
		RuleIndex    int             `json:"ruleIndex"`
		Level        string          `json:"level"`
		Message      sarifText       `json:"message"`
		State        string          `json:"baselineState,omitempty"`
		Locations    []sarifLocation `json:"locations"`
		Fingerprints struct {
			Line string `json:"primaryLocationLineHash"`
		} `json:"partialFingerprints"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact struct {
				URI  string `json:"uri"`
				Base string `json:"uriBaseId"`
			} `json:"artifactLocation"`
			Region struct {
				StartLine int `json:"startLine"`
			} `json:"region"`
		} `json:"physicalLocation"`
	}
)
