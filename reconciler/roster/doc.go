// Package roster says which of several replicas serves a member, and how members change hands. It is pure: who asks
// gives the time, and reads and writes for it.
//
//	replicas' Leases ──▶ [Presence] ──live──▶ [Roster.Next] ──▶ the roster, which the leader alone writes
//	                                              ▲                   │
//	                                      acknowledged epochs         ▼ read by every replica
//	                                              └──────────────[Standing] ──▶ [Share], the members to serve
//
// A roster names the replicas that take part, in epochs. A member is of the replica that [Owner] names, so that a
// replica that comes or goes moves the members that it must, and no other. They move in two steps:
//
//	settled(A) ──replicas become B──▶ moving(A, B) ──all live ones acknowledged, or ran out──▶ settled(B)
//	                                     │    ▲
//	                                     └────┘ replicas become C: moving(A, C)
//
// While they move, a replica serves what was its own in A and is so in B; what it gains waits for the end. It acknowledges
// an epoch once what it lost has ended. Who cannot renew its Lease serves nothing from the renew deadline on, which is
// before anybody takes it for dead, and has to read the roster again after it renewed.
//
// It promises, as long as clocks run at the same rate, writes of the roster are compared and swapped, and a read gives
// what was there when it was asked for, or later: no member has two replicas at a time, whoever dies, pauses, comes back or
// leads; and each has one a moment after that has ended.
package roster
