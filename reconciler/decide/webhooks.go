package decide

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/godwit-gitops/godwit/api"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// Answers are what webhooks said, as of some moment. They are never changed: what is known later is in
// another Answers.
type Answers struct {
	ByKey map[interpret.Key]*interpret.Answer
}

// Unanswered is a question to a webhook that has no answer. What depends on it stays as it is.
type Unanswered struct {
	*interpret.Question
	// Failed is the last attempt to ask; nil if there was none.
	Failed *interpret.Answer
	// Due: it is to be asked now; if not, it is for a pass at Failed.RetryAt.
	Due bool
}

// Message says what is missing and why.
func (u Unanswered) Message() string {
	return (&interpret.UnansweredError{Question: u.Question, Failed: u.Failed}).Error()
}

// heard is an answer that was looked for.
type heard struct {
	key    interpret.Key
	answer *interpret.Answer // nil if there was none
}

// hearing gives the interpreter the webhooks' answers, and keeps which were looked for: what is decided
// without asking again, as the memo does, still needs them, and no others in their place.
type hearing struct {
	answers *Answers // nil: there are none
	looked  []heard
}

func (h *hearing) Answer(k interpret.Key) *interpret.Answer {
	if h.answers == nil {
		return nil
	}
	a := h.answers.ByKey[k]
	h.looked = append(h.looked, heard{k, a})
	return a
}

// since are the answers looked for after the first n.
func (h *hearing) since(n int) []heard { return slices.Clone(h.looked[n:]) }

// same tells whether the answers are still those that were heard.
func (h *hearing) same(was []heard) bool {
	return len(was) == 0 || h.answers != nil && !slices.ContainsFunc(was, func(w heard) bool { return h.answers.ByKey[w.key] != w.answer })
}

// again counts answers as looked for that are needed without being asked for.
func (h *hearing) again(was []heard) { h.looked = append(h.looked, was...) }

// listen makes the interpreter of this pass.
func (p *pass) listen() {
	p.heard = &hearing{answers: p.Answers}
	p.rules = p.input.rules.value.Hearing(p.heard)
	p.unanswered = map[interpret.Key]Unanswered{}
	p.standIns = map[interpret.Key]standIn{}
	p.spoken = map[api.ID]bool{}
	p.ties = map[*record.State]ties{}
}

// deaf is the interpreter without webhooks.
func (p *pass) deaf() *interpret.Interpreter { return p.input.rules.value }

// asks tells whether a webhook speaks of the kind.
func (p *pass) asks(id api.ID) bool {
	if len(p.deaf().Webhooks()) == 0 {
		return false
	}
	id.Namespace, id.Name = "", ""
	known, ok := p.spoken[id]
	if !ok {
		known = p.deaf().Asks(id)
		p.spoken[id] = known
	}
	return known
}

// open takes note of a question without an answer; nil if err is something else. Who asks nobody has
// another answer to find: see standIn.
func (p *pass) open(err error) *interpret.UnansweredError {
	var e *interpret.UnansweredError
	if !errors.As(err, &e) {
		return nil
	}
	if p.Answers == nil {
		return e
	}
	u := Unanswered{e.Question, e.Failed, e.Failed == nil || !p.Now.Before(e.Failed.RetryAt)}
	p.unanswered[e.Key] = u
	if !u.Due {
		p.wakeAt(e.Failed.RetryAt)
	}
	return e
}

// standIn is a question that nobody was asked, and whether the record knows the answer. If not, the
// kind's next rule was used.
type standIn struct {
	*interpret.Question
	recorded bool
}

func (p *pass) standFor(e *interpret.UnansweredError, recorded bool) {
	p.standIns[e.Key] = standIn{e.Question, recorded}
}

// onRecord is the state that knows what webhooks answered.
func (p *pass) onRecord() *record.State {
	if p.Recorded != nil {
		return p.Recorded
	}
	return p.Previous
}

// replicasOf reads the size of b's template. Where a webhook has no answer, the binding's own record is
// one as long as nothing changed in the template.
func (p *pass) replicasOf(b *bound) (interpret.Replicas, error) {
	replicas, err := p.rules.Replicas(b.template.Content)
	e := p.open(err)
	if e == nil {
		return replicas, err
	}
	b.unsure = true
	recorded := p.onRecord().Bindings[b.row.Key]
	known := recorded != nil && recorded.Spec.Placement != nil && templateOf(recorded).Unversioned() == b.template.ID.Unversioned()
	switch {
	case known && (p.Answers == nil || recorded.Annotations[annotationTemplate] == p.Memo.templateHash(b.template)):
		p.standFor(e, true)
		return interpret.Recorded(&recorded.Spec), nil
	case p.Answers == nil:
		p.standFor(e, false)
		return p.deaf().Replicas(b.template.Content)
	}
	return replicas, err
}

// workOnRecord is the work as it was made from the same template for the same number of replicas.
func (p *pass) workOnRecord(b *bound, target workv1alpha2.TargetCluster) (record.Work, bool) {
	state := p.onRecord()
	binding := state.Bindings[b.row.Key]
	if binding == nil || binding.Annotations[annotationTemplate] != p.Memo.templateHash(b.template) ||
		!slices.ContainsFunc(targets(binding), func(t workv1alpha2.TargetCluster) bool { return sameTarget(t, target) }) {
		return record.Work{}, false
	}
	w, ok := state.Works[record.WorkPath(target.Name, b.template.ID)]
	return w, ok
}

// hear concludes what webhooks have to do with the pass.
func (p *pass) hear() {
	for _, u := range p.unanswered {
		p.Unanswered = append(p.Unanswered, u)
	}
	slices.SortFunc(p.Unanswered, func(a, b Unanswered) int { return a.Question.Compare(b.Question) })
	for _, h := range p.heard.looked {
		p.Heard = append(p.Heard, h.key)
	}
	slices.SortFunc(p.Heard, func(a, b interpret.Key) int { return bytes.Compare(a[:], b[:]) })
	p.Heard = slices.Compact(p.Heard)
	p.failedWebhooks()
	if p.Answers == nil {
		p.notAsked()
	}
}

// failedWebhooks are findings on webhooks that gave no answer, one for each reason.
func (p *pass) failedWebhooks() {
	type reason struct {
		webhook *interpret.Webhook
		text    string
	}
	first, more := map[reason]Unanswered{}, map[reason]bool{}
	for _, u := range p.Unanswered {
		if u.Failed == nil {
			continue
		}
		r := reason{u.Webhook, u.Failed.Failure}
		if _, ok := first[r]; ok {
			more[r] = true
		} else {
			first[r] = u
		}
	}
	for r, u := range first {
		about := u.Question.String()
		if more[r] {
			about += " and others" // how many changes all the time
		}
		p.find(r.webhook.Finding(render.Error, "webhook-failed", "%s: %s; what depends on the answer stays as it is, and the webhook is asked again", about, r.text))
	}
}

// notAsked says of each configuration what was used in place of its webhooks.
func (p *pass) notAsked() {
	type count struct {
		source          *manifest.Object
		recorded, other int
	}
	counts := map[string]*count{}
	for _, w := range p.deaf().Webhooks() {
		if counts[w.Configuration] == nil {
			counts[w.Configuration] = &count{source: w.Source}
		}
	}
	for _, s := range p.standIns {
		if c := counts[s.Webhook.Configuration]; s.recorded {
			c.recorded++
		} else {
			c.other++
		}
	}
	for _, c := range counts {
		instead := []string{"no answer of them was needed"}
		if c.recorded+c.other > 0 {
			instead = nil
		}
		if c.recorded > 0 {
			instead = append(instead, questions(c.recorded)+" answered as recorded, so that what would change their answers is not seen")
		}
		if c.other > 0 {
			instead = append(instead, questions(c.other)+" answered by the kind's next rule, or as for a kind without rules")
		}
		p.find(c.source.Finding(render.Info, "webhook-not-asked", nil, "its webhooks are asked by run alone: %s", strings.Join(instead, "; ")))
	}
}

func questions(n int) string {
	if n == 1 {
		return "1 question is"
	}
	return fmt.Sprintf("%d questions are", n)
}

// unasked are the operations on which no decision depends.
var unasked = []interpret.Operation{interpret.Retain, interpret.AggregateStatus}

// AsksWebhooks tells whether a decision can depend on a webhook's answer for the operation.
func AsksWebhooks(op interpret.Operation) bool { return !slices.Contains(unasked, op) }

// CompileRules is interpret.Compile, and says for which operations nobody asks a webhook.
func CompileRules(objects []*manifest.Object) (*interpret.Interpreter, []render.Finding) {
	rules, findings := interpret.Compile(objects)
	for _, w := range rules.Webhooks() {
		for _, op := range unasked {
			if w.Names(op) {
				findings = append(findings, w.Finding(render.Warning, "no-effect", "is not asked for %s: webhooks are asked what a decision depends on, which is replicas, components, revision, health, dependencies, and status where failover.*.statePreservation wants it", op))
			}
		}
	}
	return rules, findings
}
