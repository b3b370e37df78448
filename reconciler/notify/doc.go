// Package notify tells people, by webhooks, what the reconciler decided.
//
//	decision  ->  notice.Of, notice.Stand  ->  a box for each target  ->  POST
//
// It promises: Report never waits, so that no target holds up a pass; what happens while something of its kind was just
// told, or cannot be delivered, is told together, so that a mass failover is one message and memory is bounded by
// the number of kinds; a target that fails is tried again, with longer and longer pauses, for an hour; what was
// committed and not delivered when the process ended is told by the next one that has the same [Marker], at least
// once: the ids of Standard Webhooks are made so that the same message has the same one.
//
// Alertmanager gets alerts instead of messages: what stands is sent again and again with an end that is not far away,
// and once more when it is over. So nothing of it has to be remembered.
//
// Messages go over https to addresses that package egress allows, are signed where the receiver can check it
// (https://www.standardwebhooks.com), and follow no redirect. URLs and secrets are read from files anew for each
// attempt, and neither is ever printed.
package notify
