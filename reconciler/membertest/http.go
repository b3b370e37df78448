package membertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/version"
)

// maxBody is the size of the largest request body, as an API server has it.
const maxBody = 3 << 20

// request is one request for objects, taken apart.
type request struct {
	verb        string // get, list, watch, create, update, patch, apply, delete, deletecollection
	resource    *resource
	namespace   string
	name        string
	subresource string
	query       url.Values
	patchType   types.PatchType
	body        []byte
	dryRun      bool
	manager     string // of the fields written
	as          string // Table, PartialObjectMetadata or empty
	warnings    []string
}

func (q *request) fields() *managedfields.FieldManager { return q.resource.fields[q.subresource] }

// counters count requests by verb.
type counters struct {
	mu       sync.Mutex
	requests map[string]int64
	changed  int64
	writes   map[[2]string]int64 // by verb and resource, without dry runs
}

func (c *counters) request(verb string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests == nil {
		c.requests = make(map[string]int64)
	}
	c.requests[verb]++
}

func (c *counters) write(q *request, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writes == nil {
		c.writes = make(map[[2]string]int64)
	}
	c.writes[[2]string{metricVerbs[q.verb], q.resource.plural}]++
	if changed {
		c.changed++
	}
}

// Requests returns how many requests of a verb arrived: get, list, watch, create, update, patch, apply,
// delete, deletecollection, discovery, or probe (/readyz, /healthz and /livez). Those that failed count too.
func (s *Server) Requests(verb string) int64 {
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	return s.counts.requests[verb]
}

// Writes returns how many requests of clients changed something, and how many tried, dry runs not counted.
func (s *Server) Writes() (changed, sent int64) {
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	for _, n := range s.counts.writes {
		sent += n
	}
	return s.counts.changed, sent
}

// ServeHTTP is the API server.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handlers.RLock()
	defer s.handlers.RUnlock()
	if s.down.Load() {
		return
	}
	if f := s.intercept.Load(); f != nil {
		if st := (*f)(r); st != nil {
			writeStatus(w, *st)
			return
		}
	}
	if err := s.serveHTTP(w, r); err != nil {
		writeError(w, err)
	}
}

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) error {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if err := s.authenticate(r, parts); err != nil {
		return err
	}
	switch parts[0] {
	case "readyz", "healthz", "livez":
		s.counts.request("probe")
		if parts[0] == "readyz" && s.notReady.Load() {
			http.Error(w, "[-]shutdown failed: reason withheld\nreadyz check failed", http.StatusInternalServerError)
			return nil
		}
		_, err := io.WriteString(w, "ok")
		return ignore(err)
	case "version":
		s.counts.request("discovery")
		return writeJSON(w, http.StatusOK, s.versionInfo())
	case "metrics":
		return s.writeMetrics(w)
	case "api", "apis":
		return s.serveAPI(w, r, parts)
	}
	return notFound()
}

// versionInfo is the answer at /version.
func (s *Server) versionInfo() version.Info {
	major, rest, _ := strings.Cut(strings.TrimPrefix(s.gitVersion, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return version.Info{Major: major, Minor: minor, GitVersion: s.gitVersion, Platform: "linux/amd64"}
}

// authenticate tells who asks, by the rules of an API server with one user, who may do all.
func (s *Server) authenticate(r *http.Request, parts []string) error {
	switch token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); {
	case ok && token == s.Token():
		return nil
	case ok:
		return apierrors.NewUnauthorized("Unauthorized")
	case slices.Contains([]string{"readyz", "healthz", "livez", "version"}, parts[0]):
		return nil
	}
	err := apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	err.ErrStatus.Message = fmt.Sprintf("forbidden: User %q cannot %s path %q", "system:anonymous", strings.ToLower(r.Method), r.URL.Path)
	return err
}

func notFound() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound,
		Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{}}}
}

// serveAPI serves what is under /api and /apis.
func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request, parts []string) error {
	head := 3 // apis, group, version
	if parts[0] == "api" {
		head = 2
	}
	if len(parts) <= head {
		s.counts.request("discovery")
		return s.discover(w, r, parts)
	}
	gv := schema.GroupVersion{Version: parts[1]}
	if head == 3 {
		gv = schema.GroupVersion{Group: parts[1], Version: parts[2]}
	}
	q, err := s.parse(r, gv, parts[head:])
	if err != nil {
		return err
	}
	s.counts.request(q.verb)
	switch q.verb {
	case "get":
		return s.get(w, q)
	case "list":
		return s.list(w, q)
	case "watch":
		return s.watch(w, r, q)
	}
	return s.change(w, q)
}

// parse takes apart the part of a request's path that follows the version, and the rest of the request.
func (s *Server) parse(r *http.Request, gv schema.GroupVersion, path []string) (*request, error) {
	q := &request{query: r.URL.Query(), manager: manager(r)}
	if path[0] == "namespaces" && len(path) > 2 && path[2] != "status" {
		q.namespace, path = path[1], path[2:]
	}
	s.mu.RLock()
	q.resource = s.served[gv.WithResource(path[0])]
	s.mu.RUnlock()
	if q.resource == nil || q.resource.has(cluster) && q.namespace != "" {
		return nil, notFound()
	}
	if len(path) > 1 {
		q.name = path[1]
	}
	if len(path) > 2 {
		q.subresource = path[2]
	}
	if len(path) > 3 || q.subresource != "" && !q.resource.has(subresources[q.subresource]) {
		return nil, notFound()
	}
	if err := q.setVerb(r); err != nil {
		return nil, err
	}
	if q.name != "" && q.namespace == "" && !q.resource.has(cluster) || q.verb == "create" && q.namespace == "" && !q.resource.has(cluster) {
		return nil, methodNotAllowed()
	}
	var err error
	if q.as, err = accepts(r, "Table", "PartialObjectMetadata"); err != nil {
		return nil, err
	}
	if r.Body != nil {
		if q.body, err = io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody)); err != nil {
			var big *http.MaxBytesError
			if errors.As(err, &big) {
				return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
			}
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	return q, q.validate()
}

var subresources = map[string]trait{"status": status, "scale": scale}

func methodNotAllowed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed,
		Reason: metav1.StatusReasonMethodNotAllowed, Message: "the server does not allow this method on the requested resource", Details: &metav1.StatusDetails{}}}
}

func (q *request) setVerb(r *http.Request) error {
	content, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	verbs := map[string]string{http.MethodGet: "list", http.MethodPost: "create", http.MethodDelete: "deletecollection"}
	if q.name != "" {
		verbs = map[string]string{http.MethodGet: "get", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}
	}
	q.verb = verbs[r.Method]
	watching := q.query.Get("watch")
	switch {
	case q.verb == "" || q.subresource != "" && q.verb == "delete":
		return methodNotAllowed()
	case q.verb == "list" && (watching == "true" || watching == "1"):
		q.verb = "watch"
	case q.verb == "patch":
		q.patchType = types.PatchType(content)
		if q.patchType == types.ApplyYAMLPatchType {
			q.verb = "apply"
		}
	case q.verb == "create" || q.verb == "update":
		if content != "" && content != "application/json" && content != "application/yaml" {
			return unsupported(content)
		}
	}
	return nil
}

func unsupported(content string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: application/json, application/yaml: got %s", content)}}
}

// validate checks the options of a write.
func (q *request) validate() error {
	var errs field.ErrorList
	for _, d := range q.query["dryRun"] {
		if d != metav1.DryRunAll {
			errs = append(errs, field.NotSupported(field.NewPath("dryRun"), d, []string{metav1.DryRunAll}))
		}
		q.dryRun = true
	}
	if q.verb == "apply" && q.query.Get("fieldManager") == "" {
		errs = append(errs, field.Required(field.NewPath("fieldManager"), "is required for apply patch"))
	}
	if q.verb == "patch" && q.query.Has("force") {
		errs = append(errs, field.Forbidden(field.NewPath("force"), "may not be specified for non-apply patch"))
	}
	if m := q.query.Get("fieldManager"); len(m) > 128 {
		errs = append(errs, field.TooLong(field.NewPath("fieldManager"), m, 128))
	}
	if len(errs) == 0 {
		return nil
	}
	kind := map[string]string{"create": "CreateOptions", "update": "UpdateOptions", "delete": "DeleteOptions"}[q.verb]
	if kind == "" {
		kind = "PatchOptions"
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// manager names who writes: the field manager given, or else the program by its user agent.
func manager(r *http.Request) string {
	if m := r.URL.Query().Get("fieldManager"); m != "" {
		return m
	}
	m, _, _ := strings.Cut(r.UserAgent(), "/")
	return m[:min(len(m), 128)]
}

// accepts returns which of the forms a request asks for; empty stands for the object as it is.
func accepts(r *http.Request, forms ...string) (string, error) {
	header := r.Header.Get("Accept")
	for _, a := range strings.Split(header, ",") {
		kind, params, err := mime.ParseMediaType(strings.TrimSpace(a))
		if header != "" && (err != nil || kind != "application/json" && kind != "application/*" && kind != "*/*") {
			continue
		}
		as := strings.TrimSuffix(params["as"], "List")
		if as == "" || slices.Contains(forms, as) {
			return as, nil
		}
	}
	return "", &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: application/json"}}
}

// change answers what may change objects.
func (s *Server) change(w http.ResponseWriter, q *request) error {
	if q.verb == "delete" || q.verb == "deletecollection" {
		return s.serveDelete(w, q)
	}
	o, code, err := s.writeAndSettle(q)
	if err != nil {
		return err
	}
	for _, text := range q.warnings {
		w.Header().Add("Warning", fmt.Sprintf("299 - %q", text))
	}
	return writeBytes(w, code, q.show(o))
}

func (s *Server) writeAndSettle(q *request) (*object, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.version
	o, code, err := s.write(q)
	if !q.dryRun {
		s.counts.write(q, s.version != before)
	}
	return o, code, errors.Join(err, s.settle())
}

func (s *Server) serveDelete(w http.ResponseWriter, q *request) error {
	opts := metav1.DeleteOptions{DryRun: q.query["dryRun"]}
	if len(q.body) > 0 {
		if err := json.Unmarshal(q.body, &opts); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	if p := q.query.Get("propagationPolicy"); p != "" {
		policy := metav1.DeletionPropagation(p)
		opts.PropagationPolicy = &policy
	}
	matches, err := q.selector()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.version
	defer func() {
		if len(opts.DryRun) == 0 {
			s.counts.write(q, s.version != before)
		}
	}()
	objects := q.resource.objects
	if q.verb == "deletecollection" {
		var items [][]byte
		for _, o := range objects.sorted(q.namespace) {
			if !matches(o) {
				continue
			}
			left, _, err := s.delete(objects, o, opts)
			if err != nil {
				return err
			}
			items = append(items, left.encode(q.resource.GroupVersion()))
		}
		if err := s.settle(); err != nil {
			return err
		}
		return q.writeList(w, items, s.version, "")
	}
	live := objects.objects[key{q.namespace, q.name}]
	if live == nil {
		return apierrors.NewNotFound(q.resource.groupResource(), q.name)
	}
	left, gone, err := s.delete(objects, live, opts)
	if err = errors.Join(err, s.settle()); err != nil {
		return err
	}
	if !gone {
		return writeBytes(w, http.StatusOK, q.show(left))
	}
	return writeJSON(w, http.StatusOK, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: q.name, Group: q.resource.Group, Kind: q.resource.plural, UID: live.GetUID()},
	})
}

// unmarshal reads JSON or YAML, with whole numbers as int64.
func unmarshal(body []byte, into *map[string]any) error {
	if err := utiljson.Unmarshal(body, into); err == nil {
		return nil
	}
	return yaml.Unmarshal(body, into)
}

// writeBytes answers with a body given in parts.
func writeBytes(w http.ResponseWriter, code int, body ...[]byte) error {
	size := 0
	for _, part := range body {
		size += len(part)
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Content-Length", strconv.Itoa(size))
	w.WriteHeader(code)
	for _, part := range body {
		if _, err := w.Write(part); err != nil {
			return ignore(err)
		}
	}
	return nil
}

// ignore forgets that an answer could not be sent: who asked is gone.
func ignore(error) error { return nil }

func writeJSON(w http.ResponseWriter, code int, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return writeBytes(w, code, b)
}

// writeError answers with the status in err, or, as an API server does, with code 500.
func writeError(w http.ResponseWriter, err error) {
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		writeStatus(w, known.Status())
		return
	}
	writeStatus(w, metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()})
}

func writeStatus(w http.ResponseWriter, st metav1.Status) {
	st.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if st.Status == "" {
		st.Status = metav1.StatusFailure
	}
	if st.Code == 0 {
		st.Code = http.StatusInternalServerError
	}
	if st.Details != nil && st.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(st.Details.RetryAfterSeconds)))
	}
	_ = writeJSON(w, int(st.Code), st) // it is made of strings and numbers
}

// metricVerbs are the verbs of requests as metrics name them.
var metricVerbs = map[string]string{"create": "POST", "update": "PUT", "patch": "PATCH", "apply": "APPLY", "delete": "DELETE", "deletecollection": "DELETECOLLECTION"}

// writeMetrics answers /metrics with the one metric that [CountWrites] reads.
func (s *Server) writeMetrics(w http.ResponseWriter) error {
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	lines := make([]string, 0, len(s.counts.writes))
	for k, n := range s.counts.writes {
		lines = append(lines, fmt.Sprintf("apiserver_request_total{code=\"200\",dry_run=\"\",resource=%q,verb=%q} %d\n", k[1], k[0], n))
	}
	slices.Sort(lines)
	_, err := io.WriteString(w, strings.Join(lines, ""))
	return ignore(err)
}
