package apply

import (
	"fmt"
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/api/canonical"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/work"
)

const ourMarks = `"f:metadata":{"f:labels":{"f:godwit.dev/managed":{}},"f:annotations":{"f:godwit.dev/fleet":{},"f:godwit.dev/work":{}}}`

func TestDelivered(t *testing.T) {
	base := workOf(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: m, `+marks+`}, spec: {off: false}, data: {a: "1", b: "2"}}`)
	wanted := base
	wanted.Object = work.Deliver(base.Object, false)
	version := work.VersionOf(wanted.Object)
	live := func(version, more string) string {
		return `{apiVersion: v1, kind: ConfigMap, metadata: {name: m, uid: u1, labels: {godwit.dev/managed: "true", app.kubernetes.io/instance: m1}, annotations: {godwit.dev/fleet: godwit, godwit.dev/binding: default/web, argocd.argoproj.io/tracking-id: x, godwit.dev/work: ` + version + `}}, spec: {}, ` + more + `}`
	}
	argo := `argocd-controller Apply {` + ourMarks + `,"f:data":{"f:a":{},"f:b":{}}}`
	argoLost := `argocd-controller Apply {` + ourMarks + `,"f:data":{"f:a":{}}}`
	for _, tt := range []struct {
		name, live string
		managers   []string
		message    string // empty: it is delivered
	}{
		{"not there", "", nil, "is not there; it is for whoever applies works/ of the state branch to make it"},
		{"as wanted, with the marks of Argo CD and an empty value left out", live(version, `data: {a: "1", b: "2"}`), []string{argo}, ""},
		{"others' fields are theirs", live(version, `data: {a: "1", b: "2", c: "3"}`), []string{argo, `kubectl Update {"f:data":{"f:c":{}}}`}, ""},
		{"the server's way with a value", live(version, `data: {a: "1", b: two}`), []string{argo}, ""},
		{"a mutating webhook's, noted for who sent it", live(version, `data: {a: "1", b: two}`), []string{argoLost, `argocd-controller Update {"f:data":{"f:b":{}}}`}, ""},
		{"an earlier version", live("abcd", `data: {a: "1"}`), []string{argo}, "has an earlier version, abcd; " + version + " is for whoever applies works/ of the state branch"},
		{"applied by godwit itself before", strings.Replace(live("x", `data: {a: "1", b: "2"}`), ", godwit.dev/work: x", "", 1), []string{`godwit Apply {}`}, "was not applied from the state branch yet; it is for whoever applies works/ of the state branch"},
		{"changed by hand", live(version, `data: {a: "1", b: x}`), []string{argoLost, `kubectl-edit Update {"f:data":{"f:b":{}}}`}, "was changed since it was applied: kubectl-edit owns .data.b"},
		{"taken out by hand", live(version, `data: {a: "1"}`), []string{argoLost}, "was changed since it was applied: nobody owns .data.b"},
		{"not marked", `{apiVersion: v1, kind: ConfigMap, metadata: {name: m, uid: u1}, data: {a: "1", b: "2"}}`, []string{`helm Update {"f:data":{"f:a":{}}}`},
			"is there without the marks of the work, and is for whoever applies works/ of the state branch to take over: its managers are helm"},
		{"on its way out", strings.Replace(live(version, `data: {a: "1", b: "2"}`), "uid: u1", "uid: u1, deletionTimestamp: now, finalizers: [f]", 1), []string{argo}, "is being deleted on the member (it waits for f)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var o map[string]any
			if tt.live != "" {
				o = held(t, object(t, tt.live), tt.managers...)
			}
			out := Delivered(wanted, o, "godwit")
			if out.Message != tt.message || (out.Reason == decide.ReasonNotDelivered) != (tt.message != "") {
				t.Errorf("got  %s %s\nwant %s", out.Reason, out.Message, tt.message)
			}
		})
	}
}

// Values of a Secret are encrypted in works/, so that only the rest of it is compared.
func TestDeliveredSecret(t *testing.T) {
	w := workOf(t, `{apiVersion: v1, kind: Secret, metadata: {name: s, `+marks+`}, type: Opaque, data: {k: "ENC[AES256_GCM,data:x]"}, sops: {mac: x}}`)
	w.Object = work.Deliver(w.Object, false)
	live := held(t, object(t, `{apiVersion: v1, kind: Secret, metadata: {name: s, uid: u, labels: {godwit.dev/managed: "true"}, annotations: {godwit.dev/fleet: godwit, godwit.dev/binding: default/web, godwit.dev/work: `+work.VersionOf(w.Object)+`}}, type: Opaque, data: {k: dg==}}`),
		`argocd-controller Apply {`+ourMarks+`}`)
	if out := Delivered(w, live, "godwit"); out.Reason != "" {
		t.Errorf("got %s %s", out.Reason, out.Message)
	}
}

func TestAwaitWritesNothing(t *testing.T) {
	w := newWorld(t)
	wanted := workOf(t, configMap)
	wanted.Object = work.Deliver(wanted.Object, false)
	await := func(want string) {
		t.Helper()
		if out := w.applier.Await(w.context(), w.at(wanted.ID), wanted); out.Reason != want {
			t.Errorf("Await = %q %s, want %q", out.Reason, out.Message, want)
		}
	}
	gone := func(r Retired, want bool) {
		t.Helper()
		if out := w.applier.AwaitGone(w.context(), w.at(wanted.ID), r); out.Gone != want || out.Waiting == want {
			t.Errorf("AwaitGone = %+v, want gone %t", out, want)
		}
	}
	await(decide.ReasonNotDelivered)
	gone(Retired{ID: wanted.ID}, true)
	w.other("argocd-controller", string(canonical.YAML(wanted.Object)))
	before := w.writes()
	await("")
	gone(Retired{ID: wanted.ID}, false)
	gone(Retired{ID: wanted.ID, Preserve: true}, true)
	if n := w.writes() - before; n != 0 {
		t.Errorf("%d writes", n)
	}
	w.edit(wanted.ID, "argocd-controller", `{metadata: {annotations: {argocd.argoproj.io/sync-options: "Prune=false"}}}`)
	gone(Retired{ID: wanted.ID}, true)
}

// Two that want different values are told apart from somebody who changes one: the field is taken back a few times
// and left alone then, whatever the policy says, also by a process that started since.
func TestAFieldIsNotFoughtOverWithAnotherDelivery(t *testing.T) {
	for _, overwrite := range []bool{false, true} {
		for _, tt := range []struct {
			name  string
			takes func(w *world, work Work, i int)
		}{
			{"by apply", func(w *world, _ Work, i int) {
				w.other("argocd-controller", fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: default, annotations: {argocd.argoproj.io/tracking-id: "shop:/ConfigMap:default/web"}}, data: {b: "theirs %d"}}`, i))
			}},
			{"by update", func(w *world, work Work, i int) {
				w.edit(work.ID, "argocd-controller", fmt.Sprintf(`{metadata: {annotations: {argocd.argoproj.io/tracking-id: "shop:/ConfigMap:default/web"}}, data: {b: "theirs %d"}}`, i))
			}},
		} {
			t.Run(fmt.Sprintf("%s, overwrite %t", tt.name, overwrite), func(t *testing.T) {
				w := newWorld(t)
				work := workOf(t, configMap)
				work.Overwrite = overwrite
				known, taken := w.apply(work, nil).Known, 0
				var out Outcome
				for i := range 100 {
					tt.takes(w, work, i)
					if out = w.apply(work, known); out.Change == Updated {
						taken++
					}
					known = out.Known
				}
				if taken != contestLimit {
					t.Errorf("taken back %d times, want %d", taken, contestLimit)
				}
				const want = "argocd-controller owns .data.b, and took it back 3 times: Argo CD (argocd.argoproj.io/tracking-id: shop:/ConfigMap:default/web) manages this object, too"
				if out.Reason != decide.ReasonConflict || !strings.HasPrefix(out.Message, want) {
					t.Errorf("%s: %s", out.Reason, out.Message)
				}
				if overwrite {
					expect(t, "once it was calm", w.apply(work, known.Forgive()), Updated)
				} else if restarted := w.apply(work, nil); restarted.Reason != decide.ReasonConflict || !strings.Contains(restarted.Message, "argocd-controller owns .data.b") {
					t.Errorf("after a restart: %s %s: %s", restarted.Change, restarted.Reason, restarted.Message)
				}
			})
		}
	}
}

// A new version of the work does not make the fight begin anew.
func TestAFightIsRememberedAcrossVersions(t *testing.T) {
	w := newWorld(t)
	work, next := workOf(t, configMap), workOf(t, configMap)
	next.Hash = "next"
	known := w.apply(work, nil).Known
	for range contestLimit {
		w.other("argocd-controller", `{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: default}, data: {b: theirs}}`)
		known = w.apply(work, known).Known
	}
	known = w.apply(next, known).Known
	w.other("argocd-controller", `{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: default}, data: {b: theirs}}`)
	if out := w.apply(next, known); out.Reason != decide.ReasonConflict {
		t.Errorf("%s %s: %s", out.Change, out.Reason, out.Message)
	}
}

// Who changes a field by hand is no delivery, however often.
func TestPeopleArePutRightEachTime(t *testing.T) {
	w := newWorld(t)
	work := workOf(t, configMap)
	known := w.apply(work, nil).Known
	for i := range 3 * contestLimit {
		w.edit(work.ID, "kubectl-edit", fmt.Sprintf(`{data: {b: "theirs %d"}}`, i))
		out := w.apply(work, known)
		expect(t, "drift", out, Updated)
		known = out.Known
	}
}
