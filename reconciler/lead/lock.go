package lead

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// annotationProcess on the Lease is the process that wrote it.
const annotationProcess = "godwit.dev/process"

// twin is what holder another process is that has our identity.
func twin(identity string) string { return identity + " (another process)" }

// marked are Leases that know processes apart which have the same identity: one that another process holds is of
// somebody else, who has to release it or be silent until it runs out.
type marked struct {
	typedcoordinationv1.LeasesGetter
	identity, process string
}

func (m marked) Leases(namespace string) typedcoordinationv1.LeaseInterface {
	return markedIn{m.LeasesGetter.Leases(namespace), m}
}

type markedIn struct {
	typedcoordinationv1.LeaseInterface
	by marked
}

func (m markedIn) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	l, err := m.LeaseInterface.Get(ctx, name, o)
	if err != nil {
		return nil, err
	}
	process := l.Annotations[annotationProcess]
	if ptr.Deref(l.Spec.HolderIdentity, "") == m.by.identity && process != "" && process != m.by.process {
		l.Spec.HolderIdentity = ptr.To(twin(m.by.identity))
	}
	return l, nil
}

func (m markedIn) Create(ctx context.Context, l *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return m.LeaseInterface.Create(ctx, m.mark(l), o)
}

// Update looks first: whoever can write and cannot read leads nobody anywhere.
func (m markedIn) Update(ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if _, err := m.LeaseInterface.Get(ctx, l.Name, metav1.GetOptions{}); err != nil {
		return nil, err
	}
	return m.LeaseInterface.Update(ctx, m.mark(l), o)
}

func (m markedIn) mark(l *coordinationv1.Lease) *coordinationv1.Lease {
	l = l.DeepCopy()
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Annotations[annotationProcess] = m.by.process
	return l
}
