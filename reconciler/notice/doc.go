// Package notice says of decisions what people want to be told of.
//
//	decide.Event   ->  Of     ->  Notices: what happened, once
//	decide.Decision ->  Stand ->  Conditions: what holds now, until it does not
//
// Both are pure. A commit gives one Notice of a kind, however many workloads it moves, and Merge makes one of two of a
// kind. The reasons are stable words: they are in messages, in alerts and on Events.
package notice
