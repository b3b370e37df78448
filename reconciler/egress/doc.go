// Package egress makes clients for addresses that other people choose: those of interpreter webhooks, which are in the
// source, and those that notifications go to.
//
// It promises: never a link-local or multicast address, where clouds keep secrets; one of this machine only if the
// caller says so; addresses are looked at when a connection is made, whatever the name resolved to before; TLS 1.2 or
// newer; no redirect is followed, so that no header and no body goes to a host that nobody named; no proxy of the
// environment; headers within a bound. What went wrong is told in words that have no port of ours, no time and nothing
// of the URL but its host in them, so that the same trouble gives the same words and no secret in a path is printed.
package egress
