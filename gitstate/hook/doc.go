// Package hook receives the push webhooks of forges: POST /hooks/<provider>/<id> becomes a signal to look again.
//
// It promises: a delivery that is not signed by who knows the secret has no effect, nor has one that came before; what
// the body says is looked at by nobody, as the branch is fetched anyway, so that a forged or a wrong one cannot mislead;
// bodies of any size are checked in constant memory; the number of deliveries in hand, those remembered and the rate at
// which they are looked at are bounded, so that a flood costs answers of a few bytes. Signals are not queued: while one
// waits to be received, more of them are that one.
//
// The providers: github has X-Hub-Signature-256 (https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries),
// gitea, which Forgejo is one of, X-Gitea-Signature (https://docs.gitea.com/usage/webhooks), gitlab X-Gitlab-Token
// (https://docs.gitlab.com/user/project/integrations/webhooks/), and standard the headers of
// https://www.standardwebhooks.com. GitHub and Gitea sign no time: what was sent through them can be sent again later,
// and then leads to one fetch. GitLab's token signs nothing at all.
//
// A Receiver may serve many requests at once. Verify and Sign are pure.
package hook
