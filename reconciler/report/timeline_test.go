package report

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/simulate"
)

func TestTimelineFitsTheTerminal(t *testing.T) {
	for _, test := range []struct {
		width int
		want  string
	}{
		{0, `
2m0s     62685b6  ClusterFailure      default/web-deployment: failover: m1 -> m2; the member is unreachable
5m0s     -        -                   m1: is made True
`},
		{80, `
2m0s     62685b6  ClusterFailure      default/web-deployment: failover: m1 ->
                                      m2; the member is unreachable
5m0s     -        -                   m1: is made True
`},
		{50, `
2m0s     62685b6  ClusterFailure
    default/web-deployment: failover: m1 -> m2;
    the member is unreachable
5m0s     -        -
    m1: is made True
`},
	} {
		var got strings.Builder
		timeline := NewTimeline(&got, Style{Width: test.width}, false)
		timeline.Step(simulate.Line{At: 2 * time.Minute, Commit: "62685b6f", Reason: decide.ClusterFailure, Binding: "default/web-deployment", Message: "failover: m1 -> m2; the member\nis unreachable"})
		timeline.Step(simulate.Line{At: 5 * time.Minute, Cluster: "m1", Message: "is made True"})
		if err := timeline.End(record.New()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want+"\n", "\n"+got.String()); diff != "" {
			t.Errorf("%d wide (-want +got):\n%s", test.width, diff)
		}
	}
}
