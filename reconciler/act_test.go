package reconciler

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/render/interpret"
)

// An object is removed as the one that it was written as, and as ourselves where that is what the record says.
func TestWhoRemovesIsWhoWrote(t *testing.T) {
	rules, problems := interpret.New(nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s := record.New()
	s.Members["m1"] = &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}
	accounts := map[string]string{"a": "shop/deployer", "b": ""}
	for name, account := range accounts {
		r := record.NewRetired("m1", api.ID{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name}, time.Unix(0, 0), "TemplateDeleted", false)
		r.ServiceAccount = account
		s.Retired[r.Path()] = r
	}
	orders := desired(s, nil, rules)["m1"].Retired
	if len(orders) != len(accounts) {
		t.Fatalf("%d orders", len(orders))
	}
	for id, order := range orders {
		if want := accounts[id.Name]; order.Account != want {
			t.Errorf("%s is removed as %q, want %q", id, order.Account, want)
		}
	}
}
