package decide_test

import (
	"strings"
	"testing"
	"time"

	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// pulling is a source in which a member takes its objects from the record.
func pulling(source, member string) string {
	at := strings.Index(source, "name: "+member+",")
	return source[:at] + strings.Replace(source[at:], "syncMode: Push", "syncMode: Pull", 1)
}

const token = "apiVersion: v1\nkind: Secret\nmetadata: {name: token, namespace: default}\nstringData: {key: hunter2}\n"

func TestASecretIsNotForMembersThatTakeObjectsFromTheRecord(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2")
	source := fleet(2) + file("app.yaml", token, configMap("c", "one"), policyFor("s", "Secret", everywhere), policyFor("c", "ConfigMap", everywhere))
	d := w.push(pulling(source, "m2"))
	want(t, "works", w.works(), []string{"m1/default/configmap_c", "m1/default/secret_token", "m2/default/configmap_c"})
	want(t, "findings", messages(d), []string{"app.yaml:1: error: secret-values: Secret default/token: no copy can be made for member m2: " +
		"the member gets what is in works/ of the state branch, where values of Secrets never are: use a kind that fetches them there, such as ExternalSecret or SealedSecret"})
	w.restart()
	w.quiet(w.pass())

	// A member that is pushed to gets it; when it is one that pulls again, the object stays there, and is ours no more.
	w.push(source)
	want(t, "pushed", w.works(), []string{"m1/default/configmap_c", "m1/default/secret_token", "m2/default/configmap_c", "m2/default/secret_token"})
	w.push(pulling(source, "m2"))
	want(t, "pulled again", w.works(), []string{"m1/default/configmap_c", "m1/default/secret_token", "m2/default/configmap_c"})
	want(t, "retired", w.retired(), []string{"m2/default/secret_token"})
	want(t, "and stays", w.state.Retired["retired/m2/default/secret_token.yaml"].Preserve, true)
}

func TestWhereARuleOfTheSourceKeepsNothing(t *testing.T) {
	w := newWorld(t)
	w.harbours("m1", "m2")
	source := func(field, script string) string {
		return pulling(fleet(2)+file("rules.yaml", customization(field, script))+file("ship.yaml", ship("a"), shipPolicy), "m2")
	}
	keeps := "function Retain(desired, observed)\n  return desired\nend"
	want(t, "findings", messages(w.push(source("retention", keeps))), []string{
		"ship.yaml:1: warning: retention: Fleet default/a: on m2 it comes from the state branch, where customization fleet is not known: " +
			"what others set on the object there is put back; place it on members that are pushed to if that matters"})
	want(t, "of another rule", messages(w.push(source("healthInterpretation", sizeRule))), []string{})
}

// Who takes deletions from the record may do so before its member is seen to be back: what waits says so there. It is
// what is on record that counts, so that the record can be decided again.
func TestASparedCopyIsOnRecordWhereTheRecordDelivers(t *testing.T) {
	t.Run("an agent", func(t *testing.T) { aSparedCopyIsOnRecord(t, false) })
	t.Run("another replica", func(t *testing.T) { aSparedCopyIsOnRecord(t, true) })
}

func aSparedCopyIsOnRecord(t *testing.T, shared bool) {
	const path = "retired/m2/default/deployment.apps_web.yaml"
	w := newWorld(t)
	w.options.StatusInterval = 10 * time.Second
	w.look("m1", "m2")
	source := failoverSource(2, 4, strings.Replace(tutorial, "failover: {application: {decisionConditions: {tolerationSeconds: 60}, purgeMode: Graciously, gracePeriodSeconds: 120}}", "failover: {cluster: {}}", 1))
	if w.options.Shared = shared; !shared {
		source = pulling(source, "m2")
	}
	w.push(source)
	w.healthOf("m1", workv1alpha2.ResourceHealthy)
	w.healthOf("m2", workv1alpha2.ResourceHealthy)
	w.at(5)
	w.now = start.Add(10 * time.Second)
	w.down("m2")
	w.pass()
	w.at(70)
	w.healthOf("m1", workv1alpha2.ResourceHealthy)
	w.at(75)
	want(t, "retired", w.retired(), []string{"m2/default/deployment.apps_web"})
	want(t, "spared while a copy works", w.readBack().Retired[path].Spared, false)

	w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
	d := w.at(90)
	want(t, "spared when that fails", w.readBack().Retired[path].Spared, true)
	want(t, "subject", d.Commit.Subject, "purge(m2): the deletion of 1 object waits until another copy works")
	w.restart()
	w.quiet(w.at(91))
	w.up("m2")
	w.pass()
	want(t, "spared when its member is back", w.readBack().Retired[path].Spared, true)

	w.healthOf("m1", workv1alpha2.ResourceHealthy)
	d = w.at(110)
	want(t, "spared when a copy works again", w.readBack().Retired[path].Spared, false)
	want(t, "subject", d.Commit.Subject, "purge(m2): the deletion of 1 object waits no longer")
	w.gone("m2")
	w.at(111)
	want(t, "retired at last", w.retired(), []string{})
}
