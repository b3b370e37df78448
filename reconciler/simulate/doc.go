// Package simulate runs decide under a simulated clock against simulated members.
//
//	Parse     a scenario's text -> Scenario, or every mistake with its line
//	Run       Scenario, sources -> a timeline of decisions and the state at the end
//	Random    a seed            -> a fleet and a schedule of faults
//	Shrink    a failing one     -> the shortest that still fails
//
// Simulated members apply at once what is decided, while they are up, and a copy becomes Healthy some
// time after it was created or changed. What is decided is committed to a Branch, and a restart knows
// nothing but what is on it. With Check, invariants are verified after every step:
//
//  1. purge mode Gracefully never takes the last healthy copy before its time;
//  2. divided replicas add up to the template's;
//  3. nothing goes to a member that is blocked for it;
//  4. a process that just started decides the same;
//  5. nothing leaves earlier than it is tolerated, nor later;
//  6. the branch always reads back whole, and deciding on it again changes nothing;
//  7. deciding again from what is on record gives what is on record.
//
// The package is pure: equal scenarios and seeds give equal timelines.
package simulate
