package events

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/godwit-gitops/godwit/reconciler/notice"
)

// over are the reasons of what is over.
var over = map[notice.Reason]string{
	notice.MemberUnreachable: "MemberReady",
	notice.FailoverHeld:      "FailoverReleased",
	notice.SourceRefused:     "SourceFollowed",
}

// Places are the objects that Events are on.
type Places struct {
	// Fleet stands for all of it.
	Fleet corev1.ObjectReference
	// Member gives the object that registers a member; false where there is none, as for one of a kubeconfig.
	Member func(name string) (corev1.ObjectReference, bool)
}

// Event is one to be recorded.
type Event struct {
	Object          corev1.ObjectReference
	Type            string // Normal or Warning
	Reason, Message string
}

// maxMessage is what an Event may say, in bytes.
const maxMessage = 1000

// Of gives the Events of a notice: one on each member that it concerns, and one on the fleet if it is about none, or
// about members that are registered nowhere.
func Of(n notice.Notice, p Places) []Event {
	e := Event{Object: p.Fleet, Type: corev1.EventTypeNormal, Reason: string(n.Reason), Message: cut(n.Title())}
	if n.Warning() {
		e.Type = corev1.EventTypeWarning
	}
	if n.Resolved {
		e.Reason = over[n.Reason]
	}
	var all []Event
	onFleet := len(n.Members) == 0
	for _, name := range n.Members {
		object, ok := p.Member(name)
		if !ok {
			onFleet = true
			continue
		}
		one := e
		one.Object = object
		all = append(all, one)
	}
	if onFleet {
		all = append(all, e)
	}
	return all
}

func cut(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage-3], "") + "..."
}
