package report

import (
	"slices"

	"github.com/godwit-gitops/godwit/render"
)

// SARIF is findings in the form that code scanning reads (SARIF 2.1.0), with the fields that forges use.
func SARIF(version string, findings []render.Finding) any {
	rules := []sarifRule{}
	results := []sarifResult{}
	for _, f := range findings {
		if !slices.ContainsFunc(rules, func(r sarifRule) bool { return r.ID == f.Code }) {
			rules = append(rules, sarifRule{f.Code})
		}
		message := f.Message
		if f.Object != "" {
			message = f.Object + ": " + message
		}
		result := sarifResult{RuleID: f.Code, Level: sarifLevel[f.Severity], Message: sarifText{clean(message)}}
		if f.File != "" {
			location := sarifLocation{}
			location.Physical.Artifact.URI = f.File
			// Lines count from 1; a finding about a whole file is shown at its top.
			location.Physical.Region.StartLine = max(1, f.Line)
			result.Locations = []sarifLocation{location}
		}
		results = append(results, result)
	}
	slices.SortFunc(rules, func(a, b sarifRule) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	run := sarifRun{Results: results}
	run.Tool.Driver = sarifDriver{Name: "godwit", Version: version, Rules: rules}
	return sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
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
		ID string `json:"id"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact struct {
				URI string `json:"uri"`
			} `json:"artifactLocation"`
			Region struct {
				StartLine int `json:"startLine"`
			} `json:"region"`
		} `json:"physicalLocation"`
	}
)
