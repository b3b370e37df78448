// Package failover decides when a workload has to leave a member, and when the copy there may go.
//
//	Watch      recorded + seen copies, now      -> copies with the timers that run on their health
//	Causes     binding, copies, members' taints -> what makes it leave which member, and when
//	Evict      binding, a cause that is due     -> binding without the member, with a task and a record
//	Finish     binding with tasks, copies, now  -> the tasks that are over, and why
//	Unblock    binding with records, now        -> without those whose block has ended
//	Brake      members that are down            -> whether it is rather we who are cut off
//	Budget     evictions of the last minute     -> how many more may begin
//
// One copy goes through these states:
//
//	             Unhealthy seen, or          deadline, and
//	             an untolerated taint        another member fits
//	placed ─────────────▶ failing ──────────────────▶ leaving ──────────────▶ gone
//	  ▲                    │   │                      (a task)   all others
//	  └────────────────────┘   └── deadline, nowhere             healthy, or
//	   Healthy seen, or            to go: blocked,               grace period
//	   the taint is gone           the copy stays                over
//
// It promises: nothing leaves before its toleration ended; every deadline is computed from times that
// the record holds, so that a restart neither forgets nor restarts one; a copy goes only while
// another is scheduled; no argument is changed.
//
// It leaves to others: whether another member fits (render/schedule), asking in which order and how
// often (reconciler/decide), and carrying it out.
//
// The rules are those of Karmada's application failover, taint manager and graceful eviction
// controllers (https://karmada.io/docs/userguide/failover/), and of its proposal for application
// failover where that was never built. What differs says so.
package failover
