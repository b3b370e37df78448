// Package webhook asks interpreter webhooks the questions that a decision has left open.
//
//	decide.Decision.Unanswered  ->  Ask  ->  POST over https  ->  Answers  ->  the next decision
//
// It promises: Ask never blocks; a webhook that hangs or fails delays no other one, and no pass; each
// question is under way once, and given up when no decision needs it any more; an answer is kept as
// long as decisions look for it, others while there is room, and all of them within a bound; whatever a
// server sends becomes an answer or a failure in plain words, which is one of its own and not asked
// again before its time.
//
// Where it connects to is decided by people who push to the source, so it is careful: https with TLS
// 1.2 or newer and a certificate that the configuration's caBundle or the machine's roots vouch for; no
// redirect, no proxy, no credentials; never a link-local address, where clouds keep secrets, and one of
// this machine only for hosts that the operator lists; addresses are looked at when a connection is
// made, whatever the name resolved to before. What a server says beside its answer is shown to nobody
// but for one short line.
//
// What questions and answers are is for render/interpret, and when to ask for decide. The protocol is
// that of Karmada's interpreter webhooks
// (https://karmada.io/docs/userguide/globalview/customizing-resource-interpreter/).
package webhook
