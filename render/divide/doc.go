// Package divide turns a number of replicas and a list of weighted names into a number of replicas
// for each name. It knows nothing of clusters or policies.
//
// Webster is the primitive: the Sainte-Laguë method, one seat after the other to the highest
// quotient. Static divides by given weights, afresh each time. Dynamic divides by room, and moves
// as little as it can when the total or the members change.
//
// Promises: what is given out adds up to what was asked for, or nothing is given out; a name of
// weight 0 gets nothing; the order of the input does not matter, except where Dynamic says so;
// with Webster and Static, one seat more takes none away from anyone. Functions change none of
// their arguments and may be called concurrently. Names in one list are unique.
//
// The quotients are 64-bit floats, as in Karmada since release 1.16
// (https://github.com/karmada-io/karmada/tree/master/pkg/util/helper): a single division, correctly
// rounded, gives the same answer on every machine, and equal fractions give equal floats.
package divide
