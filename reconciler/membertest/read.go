package membertest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

func (s *Server) get(w http.ResponseWriter, q *request) error {
	s.mu.RLock()
	o := q.resource.objects.objects[key{q.namespace, q.name}]
	s.mu.RUnlock()
	if o == nil {
		return apierrors.NewNotFound(q.resource.groupResource(), q.name)
	}
	if q.subresource == "scale" {
		var err error
		if o, err = q.resource.scaleOf(o); err != nil {
			return err
		}
	}
	return writeBytes(w, http.StatusOK, q.show(o))
}

// show returns an object in the form the request asks for.
func (q *request) show(o *object) []byte {
	switch {
	case q.as == "Table":
		return q.table([]*object{o}, o.GetResourceVersion(), "")
	case q.as == "PartialObjectMetadata":
		return partial(o, q.verb != "list")
	case q.subresource == "scale":
		return o.wire
	}
	return o.encode(q.resource.GroupVersion())
}

// partial returns the metadata of an object, as an object of its own or as an item of a list.
func partial(o *object, whole bool) []byte {
	content := map[string]any{"metadata": o.Object["metadata"]}
	if whole {
		content["kind"], content["apiVersion"] = "PartialObjectMetadata", "meta.k8s.io/v1"
	}
	b, err := json.Marshal(content)
	if err != nil {
		panic(err) // it was encoded before
	}
	return b
}

func (s *Server) list(w http.ResponseWriter, q *request) error {
	matches, err := q.selector()
	if err != nil {
		return err
	}
	limit, _ := strconv.Atoi(q.query.Get("limit"))
	s.mu.RLock()
	objects, version := q.resource.objects.sorted(q.namespace), s.version
	s.mu.RUnlock()
	var after *key
	if token := q.query.Get("continue"); token != "" {
		var k key
		if version, k, err = parseContinue(token); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("continue key is not valid: %v", err))
		}
		after = &k
	}
	var found []*object
	next := ""
	for _, o := range objects {
		if after != nil && o.key.compare(*after) <= 0 || !matches(o) {
			continue
		}
		if limit > 0 && len(found) == limit {
			next = continueAfter(version, found[limit-1].key)
			break
		}
		found = append(found, o)
	}
	if q.as == "Table" {
		return writeBytes(w, http.StatusOK, q.table(found, strconv.FormatUint(version, 10), next))
	}
	items := make([][]byte, len(found))
	for i, o := range found {
		items[i] = q.show(o)
	}
	return q.writeList(w, items, version, next)
}

// writeList answers with a list of encoded objects, which may be long: they are not copied.
func (q *request) writeList(w http.ResponseWriter, items [][]byte, version uint64, next string) error {
	kind, gv := q.resource.listKind, q.resource.GroupVersion().String()
	if q.as == "PartialObjectMetadata" {
		kind, gv = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	head := fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d","continue":%q},"items":[`, kind, gv, version, next)
	parts := make([][]byte, 0, 2*len(items)+2)
	parts = append(parts, head)
	for i, item := range items {
		if i > 0 {
			parts = append(parts, []byte(","))
		}
		parts = append(parts, item)
	}
	return writeBytes(w, http.StatusOK, append(parts, []byte("]}\n"))...)
}

// A list that goes on has no snapshot of its own: what changes between its pages shows, or not, as in a
// list from a watch cache, and its version is that of the first page, so that a watch from there misses nothing.
func continueAfter(version uint64, k key) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d/%s/%s", version, k.namespace, k.name))
}

func parseContinue(token string) (version uint64, k key, err error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return 0, k, err
	}
	parts := strings.Split(string(b), "/")
	if len(parts) != 3 {
		return 0, k, fmt.Errorf("%d parts", len(parts))
	}
	version, err = strconv.ParseUint(parts[0], 10, 64)
	return version, key{parts[1], parts[2]}, err
}

// selectable lists the fields that selectors may name, but for those of metadata, by kind.
var selectable = map[string][]string{
	"Event":     {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "reason", "type"},
	"Namespace": {"status.phase"},
	"Pod":       {"spec.nodeName", "status.phase"},
	"Secret":    {"type"},
}

// selector returns what the request's label and field selectors select.
func (q *request) selector() (func(*object) bool, error) {
	byLabel, err := labels.Parse(q.query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to parse requirement: %v", err))
	}
	byField, err := fields.ParseSelector(q.query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	known := append([]string{"metadata.name", "metadata.namespace"}, selectable[q.resource.Kind]...)
	for _, r := range byField.Requirements() {
		if !slices.Contains(known, r.Field) {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	return func(o *object) bool {
		if q.name != "" && o.name != q.name || !byLabel.Empty() && !byLabel.Matches(labels.Set(o.GetLabels())) {
			return false
		}
		for _, r := range byField.Requirements() {
			v, _, _ := unstructured.NestedString(o.Object, strings.Split(r.Field, ".")...)
			if (v == r.Value) != (r.Operator != "!=") {
				return false
			}
		}
		return true
	}, nil
}

// watch streams what happens to the objects selected.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, q *request) error {
	matches, err := q.selector()
	if err != nil {
		return err
	}
	inside := func(o *object) bool { return (q.namespace == "" || o.namespace == q.namespace) && matches(o) }
	var timeout <-chan time.Time
	if seconds, _ := strconv.Atoi(q.query.Get("timeoutSeconds")); seconds > 0 {
		t := time.NewTimer(time.Duration(seconds) * time.Second)
		defer t.Stop()
		timeout = t.C
	}
	objects := q.resource.objects
	from, err := strconv.ParseUint(q.query.Get("resourceVersion"), 10, 64)
	if err != nil && q.query.Get("resourceVersion") != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	initial := q.query.Get("sendInitialEvents") == "true"
	stream := newStream(w)
	if from == 0 || initial {
		s.mu.RLock()
		present := objects.sorted(q.namespace)
		from = s.version
		s.mu.RUnlock()
		for _, o := range present {
			if inside(o) {
				stream.send(watch.Added, q.show(o))
			}
		}
		if initial {
			stream.send(watch.Bookmark, q.bookmark(from))
		}
	}
	for {
		s.mu.RLock()
		events, ok := objects.after(from)
		changed, oldest, ended := objects.changed, objects.floor, objects.ended
		s.mu.RUnlock()
		if !ok {
			status := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, oldest)).Status()
			status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
			b, err := json.Marshal(status)
			if err != nil {
				return err
			}
			stream.send(watch.Error, b)
			stream.flush()
			return nil
		}
		for _, e := range events {
			from = e.object.version
			is := e.kind != watch.Deleted && inside(e.object)
			was := e.previous != nil && inside(e.previous)
			switch {
			case is && was:
				stream.send(watch.Modified, q.show(e.object))
			case is:
				stream.send(watch.Added, q.show(e.object))
			case was:
				stream.send(watch.Deleted, q.show(e.object))
			}
		}
		if err := stream.flush(); err != nil || ended {
			return nil // who watched is gone, or what was watched
		}
		select {
		case <-changed:
		case <-timeout:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}

// bookmark tells a watch that it has seen all there is at a version.
func (q *request) bookmark(version uint64) []byte {
	o := newObject(q.resource.GroupVersionKind)
	o.SetResourceVersion(strconv.FormatUint(version, 10))
	o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	b, err := json.Marshal(o.Object)
	if err != nil {
		panic(err) // it is made of strings
	}
	return b
}

// stream writes events.
type stream struct {
	w   http.ResponseWriter
	c   *http.ResponseController
	buf bytes.Buffer
}

func newStream(w http.ResponseWriter) *stream {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	return &stream{w: w, c: http.NewResponseController(w)}
}

func (s *stream) send(kind watch.EventType, object []byte) {
	fmt.Fprintf(&s.buf, `{"type":%q,"object":`, kind)
	s.buf.Write(object)
	s.buf.WriteString("}\n")
}

func (s *stream) flush() error {
	if _, err := s.buf.WriteTo(s.w); err != nil {
		return err
	}
	return s.c.Flush()
}
