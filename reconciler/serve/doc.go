// Package serve answers probes, scrapes and push webhooks.
//
// It promises: every request has limits of time and size; connections are bounded where strangers connect; a server that
// is closed finishes the requests in hand, for as long as its caller waits. What is answered is for others: it has
// handlers for probes and profiles, and none of the rest.
package serve
