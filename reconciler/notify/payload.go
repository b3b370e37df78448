package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"
	"time"

	"github.com/godwit-gitops/godwit/reconciler/notice"
)

// wireMessage is the JSON of the type webhook.
type wireMessage struct {
	Version  string        `json:"version"`
	Fleet    string        `json:"fleet"`
	Reason   notice.Reason `json:"reason"`
	Severity string        `json:"severity"`
	Resolved bool          `json:"resolved"`
	Title    string        `json:"title"`
	Text     string        `json:"text"`
	Count    int           `json:"count"`
	Items    []notice.Item `json:"items"`
	Members  []string      `json:"members,omitempty"`
	Commit   string        `json:"commit,omitempty"`
	Source   string        `json:"source,omitempty"`
	Time     time.Time     `json:"time"`
}

// body is what a target of a type gets for a notice.
func body(t Type, words *template.Template, fleet string, n notice.Notice) ([]byte, error) {
	text, err := render(words, viewOf(fleet, n))
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	switch t {
	case Slack:
		return json.Marshal(map[string]string{"text": slackText.Replace(text)})
	case Teams:
		return json.Marshal(card(text, n.Warning()))
	}
	severity := "info"
	if n.Warning() {
		severity = "warning"
	}
	return json.Marshal(wireMessage{
		Version: "v1", Fleet: fleet, Reason: n.Reason, Severity: severity, Resolved: n.Resolved, Title: n.Title(), Text: text,
		Count: n.Count, Items: n.Items, Members: n.Members, Commit: n.Commit, Source: n.Source, Time: n.Time.UTC(),
	})
}

// card is an Adaptive Card in the message that a workflow posts. Its runs of text have no markup.
func card(text string, warning bool) map[string]any {
	color := "default"
	if warning {
		color = "attention"
	}
	var lines []any
	for i, line := range strings.Split(text, "\n") {
		run := map[string]any{"type": "TextRun", "text": line}
		if i == 0 {
			run["weight"], run["color"] = "bolder", color
		}
		lines = append(lines, map[string]any{"type": "RichTextBlock", "spacing": "none", "inlines": []any{run}})
	}
	return map[string]any{"type": "message", "attachments": []any{map[string]any{
		"contentType": "application/vnd.microsoft.card.adaptive",
		"content": map[string]any{
			"type": "AdaptiveCard", "version": "1.4", "$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "body": lines,
		},
	}}}
}

// slackText takes from a text what Slack would read as a link, or as a call to everybody in the channel.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// idOf is the same for the same message, so that whoever gets it twice can tell.
func idOf(fleet string, n notice.Notice) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %t %d %q %d", fleet, n.Reason, n.Resolved, n.Count, n.Commit, n.Time.Unix()))
	return "godwit_" + hex.EncodeToString(sum[:16])
}
