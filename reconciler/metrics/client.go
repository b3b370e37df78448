package metrics

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// client connects the metrics of client-go, which has one place for them in a process, and returns them. Their
// names are those that other programs have. Latencies are told by verb alone: by host as well there would be a dozen
// series for each verb of each member.
var client = sync.OnceValue(func() []prometheus.Collector {
	buckets := []float64{.005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rest_client_requests_total", Help: "Requests by status code, method and host."}, []string{"code", "method", "host"})
	again := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rest_client_request_retries_total", Help: "Requests that were tried again, by method."}, []string{"method"})
	latency := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rest_client_request_duration_seconds", Help: "How long requests took, by verb.", Buckets: buckets}, []string{"verb"})
	limiter := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rest_client_rate_limiter_duration_seconds", Help: "How long requests waited for our own limit, by verb.", Buckets: buckets}, []string{"verb"})
	clientmetrics.Register(clientmetrics.RegisterOpts{
		RequestResult: result{requests}, RequestRetry: retry{again}, RequestLatency: duration{latency}, RateLimiterLatency: duration{limiter},
	})
	return []prometheus.Collector{requests, again, latency, limiter}
})

type result struct{ *prometheus.CounterVec }

func (r result) Increment(_ context.Context, code, method, host string) {
	r.WithLabelValues(code, method, host).Inc()
}

type retry struct{ *prometheus.CounterVec }

func (r retry) IncrementRetry(_ context.Context, _, method, _ string) {
	r.WithLabelValues(method).Inc()
}

type duration struct{ *prometheus.HistogramVec }

func (d duration) Observe(_ context.Context, verb string, _ url.URL, latency time.Duration) {
	d.WithLabelValues(verb).Observe(latency.Seconds())
}
