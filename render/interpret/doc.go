// Package interpret says what an object of some kind means: how many replicas a template has and
// what each asks for, how it looks with another number of them, whether its copy on a member is
// healthy, what of its status to report and how the copies' reports add up, what it keeps from the
// member, and which other objects it needs.
//
// # Layers
//
// For each operation the first layer with a rule for the exact group, version and kind answers:
//
//  1. ResourceInterpreterCustomizations of the user, in Lua;
//  2. webhooks of the user's ResourceInterpreterWebhookConfigurations;
//  3. rules for 27 kinds of other projects (Argo, Flux, Kruise, Kubeflow, Ray, ...): the files in
//     thirdparty, run by the same machinery;
//  4. native rules for the kinds of Kubernetes itself: walks over the object in Go;
//  5. what holds for any kind: no replicas, nothing to revise, retain or aggregate, the whole status
//     is reported, no dependencies, and health by the conventions of kstatus.
//
// Layer 5 is documented where it differs from Karmada: Health of a kind without a rule. What each kind of
// layers 3 and 4 answers is written down in testdata/kinds, a table for each.
//
// An error in a layer is the answer; lower layers are not asked.
//
// # Webhooks
//
// Asking a server is not for a pure package. The interpreter is given answers (Hearing) and finds them
// by the key of the question: the webhook, the operation and the input. A question without an answer is
// an *UnansweredError with what to send (Question.Body); what comes back is read and checked here too
// (Question.Decode), so that whoever asks only carries bytes. Without Hearing the layer is left out.
//
// Differs from Karmada: an answer holds for its input until the configuration changes, be it by an
// annotation; a webhook without timeoutSeconds has ten; Secrets are never sent; "*" among operations
// leaves out InterpretComponent; a Service is asked by its name in the cluster, and not looked up.
//
// Two functions belong here because they are about kinds as well: Default fills in what an API
// server would and decisions depend on, Prune takes away what one has filled in.
//
// # Promises
//
//   - Arguments are never changed. Results share structure with them; what is changed is copied on
//     the path that leads to it.
//   - The same arguments give the same answer: lists are sorted or in the order of the input, and
//     scripts see no clock, no random numbers and no addresses.
//   - An Interpreter holds no state between calls and may be used by many goroutines. Scripts are
//     compiled once, by New; the machines that run them are pooled.
//   - No object stops a rule with a panic: a field of an unexpected type counts as missing, except
//     for numbers of replicas, quantities and the template's generation, which are errors.
//
// # Scripts
//
// A script runs from the start for every call, in globals of its own, with the libraries that
// Karmada opens: base without loading and metatables, string without gsub and rep, table, math
// without random, os.time and os.date for given times, and require("kube"). It may take a million
// steps and make 32 MiB of data; both are counted, never timed, and what a single instruction could
// do without bound (see guard.go, pattern.go) is counted by its size. A script that breaks a limit,
// fails, or returns what it must not is a *ScriptError, the health of its object Unknown. Failures makes
// one finding of all objects for which a rule fails in the same way, where the rule stands.
//
// A script sees the names of a Secret's values, and not the values: something stands for each, which a rule for Retain may
// move as it would the value. Such a rule changes values of a Secret and nothing else.
//
// Differs from Karmada: there the limit is one second of time, math.random and the clock are there,
// globals can leak from one call to the next, and scripts see values of Secrets.
//
// # Upstream
//
// The kinds, functions and the kube module are those of Karmada's resource interpreter
// (https://karmada.io/docs/userguide/globalview/customizing-resource-interpreter/). Patterns follow
// section 5.4.1 of the Lua 5.1 manual (https://www.lua.org/manual/5.1/manual.html#5.4.1), health by
// convention https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md.
package interpret
