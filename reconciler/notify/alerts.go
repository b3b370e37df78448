package notify

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/godwit-gitops/godwit/reconciler/notice"
)

const (
	// resend is how often alerts that stand are sent again, and lapse how long after that they end by themselves.
	resend = time.Minute
	lapse  = 5 * time.Minute
	// lasting is how long an alert stands that tells of something that happened.
	lasting = 15 * time.Minute
)

// alertKey tells alerts apart, as their labels do.
type alertKey struct {
	reason notice.Reason
	member string
}

// alert is one of Alertmanager.
type alert struct {
	start, end time.Time // a zero end: it stands
	summary    string
	text       string
	commit     string
}

// alerts are those of one target. It reads no clock and takes no lock.
type alerts struct {
	standing map[alertKey]alert
	over     map[alertKey]alert // to be sent once more
	told     time.Time          // when they were sent; zero means that something is new
	changes  int                // counts what is new
	next     time.Time          // not before, after failures
	failures int
}

// stand replaces what stands.
func (a *alerts) stand(conditions []notice.Condition, commit string, now time.Time) {
	if a.standing == nil {
		a.standing, a.over = map[alertKey]alert{}, map[alertKey]alert{}
	}
	holds := map[alertKey]bool{}
	for _, c := range conditions {
		key := alertKey{c.Reason, c.Member}
		holds[key] = true
		summary := c.Text
		if c.Member != "" {
			summary = c.Member + ": " + c.Text
		}
		next := alert{start: c.Since, summary: summary, commit: commit}
		old, was := a.standing[key]
		if was && old.summary == next.summary {
			next.commit = old.commit
		} else {
			a.changed()
		}
		a.standing[key] = next
		delete(a.over, key)
	}
	for key, old := range a.standing {
		if old.end.IsZero() && !holds[key] {
			delete(a.standing, key)
			old.end = now
			a.over[key] = old
			a.changed()
		}
	}
}

// happened adds what is over by itself after a while.
func (a *alerts) happened(n notice.Notice, now time.Time) {
	if a.standing == nil {
		a.standing, a.over = map[alertKey]alert{}, map[alertKey]alert{}
	}
	a.standing[alertKey{reason: n.Reason}] = alert{start: n.Time, end: now.Add(lasting), summary: n.Title(), text: n.Text(), commit: n.Commit}
	a.changed()
}

func (a *alerts) changed() {
	a.told = time.Time{}
	a.changes++
}

// due tells whether something is to be sent now, and otherwise when; zero means not before something happens.
func (a *alerts) due(now time.Time) (ok bool, wake time.Time) {
	for key, s := range a.standing {
		if !s.end.IsZero() && !now.Before(s.end) {
			delete(a.standing, key) // its end was sent with it
		}
	}
	switch {
	case len(a.standing)+len(a.over) == 0:
		return false, time.Time{}
	case a.next.After(now):
		return false, a.next
	case a.told.IsZero() || now.Sub(a.told) >= resend:
		return true, time.Time{}
	}
	return false, a.told.Add(resend)
}

// wireAlert is an alert as Alertmanager's API v2 takes it.
type wireAlert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    *time.Time        `json:"startsAt,omitempty"`
	EndsAt      time.Time         `json:"endsAt"`
}

// sending is what is under way.
type sending struct {
	body    []byte
	over    map[alertKey]alert
	changes int
}

// body is what to send now.
func (a *alerts) body(fleet string, now time.Time) (sending, error) {
	all := []wireAlert{}
	add := func(key alertKey, s alert) {
		w := wireAlert{
			Labels:      map[string]string{"alertname": "Godwit" + string(key.reason), "fleet": fleet, "severity": "warning"},
			Annotations: map[string]string{"summary": s.summary}, EndsAt: s.end.UTC(),
		}
		if key.member != "" {
			w.Labels["member"] = key.member
		}
		if s.text != "" {
			w.Annotations["description"] = s.text
		}
		if s.commit != "" {
			w.Annotations["commit"] = s.commit
		}
		if !s.start.IsZero() {
			start := s.start.UTC()
			w.StartsAt = &start
		}
		if s.end.IsZero() {
			w.EndsAt = now.Add(lapse).UTC()
		}
		all = append(all, w)
	}
	for key, s := range a.standing {
		add(key, s)
	}
	for key, s := range a.over {
		add(key, s)
	}
	slices.SortFunc(all, func(x, y wireAlert) int {
		return cmp.Or(cmp.Compare(x.Labels["alertname"], y.Labels["alertname"]), cmp.Compare(x.Labels["member"], y.Labels["member"]))
	})
	body, err := json.Marshal(all)
	return sending{body, maps.Clone(a.over), a.changes}, err
}

// sent: it arrived. What changed meanwhile is still to be sent.
func (a *alerts) sent(s sending, now time.Time) {
	for key, old := range s.over {
		if a.over[key] == old {
			delete(a.over, key)
		}
	}
	a.failures, a.next = 0, time.Time{}
	if s.changes == a.changes {
		a.told = now
	}
}

// failed: it did not. What is over is forgotten when its end is long past: Alertmanager then knows by itself.
func (a *alerts) failed(now time.Time) {
	pause := min(firstRetry<<min(a.failures, 20), resend)
	a.failures, a.next = a.failures+1, now.Add(pause)
	for key, s := range a.over {
		if now.Sub(s.end) > lapse {
			delete(a.over, key)
		}
	}
}
