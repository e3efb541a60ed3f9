package scale

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// answer is one request and its answer.
type answer struct {
	server *server
	target
	w http.ResponseWriter
	r *http.Request
}

// errGone is what a watch is answered whose past is forgotten.
var errGone = apierrors.NewResourceExpired("too old resource version")

func notServed(path string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: path}, "")
}

// serve answers, or returns what is wrong.
func (a answer) serve() error {
	q := a.r.URL.Query()
	if a.r.Method == http.MethodGet && a.object == "" && q.Get("watch") != "" && q.Get("watch") != "false" {
		a.server.count("WATCH", a.name)
		return a.watch()
	}
	a.server.count(map[bool]string{true: "LIST", false: a.r.Method}[a.r.Method == http.MethodGet && a.object == ""], a.name)
	switch a.r.Method {
	case http.MethodGet:
		if a.object == "" {
			return a.list()
		}
		return a.change(http.StatusOK, func(o client.Object) error {
			return a.server.client.Get(a.r.Context(), cluster.KeyOf(o), o)
		})
	case http.MethodPost:
		return a.post()
	case http.MethodPut, http.MethodPatch, http.MethodDelete:
		return a.write()
	}
	return errors.New("no such verb")
}

// change answers with an object that do has changed or filled in.
func (a answer) change(status int, do func(o client.Object) error) error {
	o := a.empty()
	a.server.mu.Lock()
	err := do(o)
	a.server.mu.Unlock()
	if err != nil {
		return err
	}
	return a.send(status, o)
}

// read decodes what was sent.
func (a answer) read(into runtime.Object) error {
	body, err := io.ReadAll(a.r.Body)
	if err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	if _, _, err := a.codecs().UniversalDeserializer().Decode(body, nil, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

func (a answer) post() error {
	if a.subresource == "eviction" {
		return a.change(http.StatusCreated, func(o client.Object) error {
			return a.server.client.SubResource("eviction").Create(a.r.Context(), o.(*corev1.Pod), nil)
		})
	}
	sent := a.empty()
	if err := a.read(sent); err != nil {
		return err
	}
	err := a.change(http.StatusCreated, func(o client.Object) error {
		err := a.server.client.Create(a.r.Context(), sent)
		if node, is := sent.(*corev1.Node); is && err == nil {
			a.server.join(node)
		}
		reflect.ValueOf(o).Elem().Set(reflect.ValueOf(sent).Elem())
		return err
	})
	if err == nil {
		select {
		case a.server.created <- a.name:
		default: // nobody reads them
		}
	}
	return err
}

// join has the kubelet of a new Node report that it is ready. The lock is held.
func (s *server) join(node *corev1.Node) {
	now, ok := cluster.Find[*corev1.Node](s.api, "", node.Name)
	if !ok {
		return
	}
	cluster.Edit(s.api, now, func(n *corev1.Node) {
		n.Status.Phase = corev1.NodeRunning
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: metav1.Now()}}
	})
}

func (a answer) write() error {
	ctx, c := a.r.Context(), a.server.client
	switch a.r.Method {
	case http.MethodPut:
		sent := a.empty()
		if err := a.read(sent); err != nil {
			return err
		}
		return a.change(http.StatusOK, func(o client.Object) error { return a.server.replace(sent, o) })
	case http.MethodPatch:
		body, err := io.ReadAll(a.r.Body)
		if err != nil {
			return fmt.Errorf("read patch: %w", err)
		}
		patch := client.RawPatch(types.PatchType(a.r.Header.Get("Content-Type")), body)
		return a.change(http.StatusOK, func(o client.Object) error {
			if a.subresource == "status" {
				return c.Status().Patch(ctx, o, patch)
			}
			return c.Patch(ctx, o, patch)
		})
	}
	sent := &metav1.DeleteOptions{}
	if a.r.ContentLength > 0 {
		if err := a.read(sent); err != nil {
			return err
		}
	}
	return a.change(http.StatusOK, func(o client.Object) error {
		return c.Delete(ctx, o, &client.DeleteOptions{Preconditions: sent.Preconditions, GracePeriodSeconds: sent.GracePeriodSeconds})
	})
}

// replace puts an object in the place of the one with its name. The lock is held.
func (s *server) replace(sent, into client.Object) error {
	name := cluster.KindOf(sent)
	had := s.api.Shelf(name).Get(cluster.KeyOf(sent))
	if had == nil {
		return apierrors.NewNotFound(cluster.ResourceOf(name), sent.GetName())
	}
	if v := sent.GetResourceVersion(); v != "" && v != had.GetResourceVersion() {
		return apierrors.NewConflict(cluster.ResourceOf(name), sent.GetName(), errors.New("it has changed"))
	}
	sent.SetUID(had.GetUID())
	sent.SetCreationTimestamp(had.GetCreationTimestamp())
	cluster.Edit(s.api, had, func(o client.Object) {
		sent.SetResourceVersion(o.GetResourceVersion())
		reflect.ValueOf(o).Elem().Set(reflect.ValueOf(sent).Elem())
	})
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(s.api.Shelf(name).Get(cluster.KeyOf(sent))).Elem())
	return nil
}

// selection returns what a list or watch is limited to.
func (a answer) selection() (func(client.Object) bool, error) {
	q := a.r.URL.Query()
	byLabel, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(q.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(o client.Object) bool {
		named := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
		return (a.namespace == "" || o.GetNamespace() == a.namespace) && byLabel.Matches(labels.Set(o.GetLabels())) && byField.Matches(named)
	}, nil
}

// chosen returns the objects of a kind that are selected. The lock is held.
func (a answer) chosen(selected func(client.Object) bool) (chosen []client.Object) {
	shelf := a.server.api.Shelf(a.name)
	for _, key := range shelf.Keys() {
		if o := shelf.Get(key); selected(o) {
			chosen = append(chosen, o)
		}
	}
	return chosen
}

func (a answer) list() error {
	selected, err := a.selection()
	if err != nil {
		return err
	}
	list, err := a.server.scheme.New(a.version.WithKind(a.name + "List"))
	if err != nil {
		return fmt.Errorf("list %s: %w", a.name, err)
	}
	a.server.mu.Lock()
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	chosen, next, err := a.page(a.chosen(selected))
	for _, o := range chosen {
		items.Set(reflect.Append(items, reflect.ValueOf(o).Elem()))
	}
	version := a.server.version
	a.server.mu.Unlock()
	if err != nil {
		return err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return fmt.Errorf("list %s: %w", a.name, err)
	}
	accessor.SetContinue(next)
	accessor.SetResourceVersion(strconv.FormatUint(max(version, 1), 10))
	return a.send(http.StatusOK, list)
}

// page returns the part of a list that is asked for, and how to ask for the next. That is its position: nothing is
// deleted while a list is read here.
func (a answer) page(all []client.Object) (page []client.Object, next string, err error) {
	q := a.r.URL.Query()
	from, errFrom := strconv.Atoi(cmp.Or(q.Get("continue"), "0"))
	limit, errLimit := strconv.Atoi(cmp.Or(q.Get("limit"), "0"))
	if err := errors.Join(errFrom, errLimit); err != nil || from < 0 || limit < 0 {
		return nil, "", apierrors.NewBadRequest(fmt.Sprintf("continue or limit: %v", err))
	}
	page = all[min(from, len(all)):]
	if limit > 0 && limit < len(page) {
		return page[:limit], strconv.Itoa(from + limit), nil
	}
	return page, "", nil
}

func (a answer) codecs() serializer.CodecFactory { return serializer.NewCodecFactory(a.server.scheme) }

// media returns in which form the client wants answers.
func (a answer) media() runtime.SerializerInfo {
	wanted := runtime.ContentTypeJSON
	if strings.Contains(a.r.Header.Get("Accept"), runtime.ContentTypeProtobuf) && !strings.Contains(a.version.Group, "karpenter") {
		wanted = runtime.ContentTypeProtobuf
	}
	info, _ := runtime.SerializerInfoForMediaType(a.codecs().SupportedMediaTypes(), wanted)
	return info
}

// encoder returns what writes objects.
func (a answer) encoder(s runtime.Serializer) runtime.Encoder {
	e := a.codecs().EncoderForVersion(s, a.version)
	if strings.Contains(a.version.Group, "karpenter") {
		return sorted{e}
	}
	return e
}

// sorted writes objects in JSON with sorted keys, as kube-apiserver does where the kind is a custom resource.
type sorted struct{ runtime.Encoder }

// Encode writes an object.
func (s sorted) Encode(o runtime.Object, w io.Writer) error {
	var written bytes.Buffer
	if err := s.Encoder.Encode(o, &written); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(written.Bytes(), &fields); err != nil {
		return fmt.Errorf("sort: %w", err)
	}
	return json.NewEncoder(w).Encode(fields)
}

func (a answer) send(status int, o runtime.Object) error {
	info := a.media()
	a.w.Header().Set("Content-Type", info.MediaType)
	a.w.WriteHeader(status)
	if err := a.encoder(info.Serializer).Encode(o, a.w); err != nil {
		return fmt.Errorf("send %s: %w", a.name, err)
	}
	return nil
}

// fail answers with an error.
func (s *server) fail(w http.ResponseWriter, _ *http.Request, err error) {
	status := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status = known.Status()
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(&status) // whoever is gone needs no answer
}

func answerJSON(w http.ResponseWriter, o any) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	_ = json.NewEncoder(w).Encode(o) // whoever is gone needs no answer
}

func encode64(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// watcher is one watch.
type watcher struct {
	kind     string
	selected func(client.Object) bool
	events   chan change
	ended    chan struct{}
	isEnded  bool // guarded by the server's lock
}

// deliver gives an event to the watch, which ends if it is too slow. The server's lock is held.
func (w *watcher) deliver(c change) {
	if c.kind != w.kind || !w.selected(c.event.Object.(client.Object)) {
		return
	}
	select {
	case w.events <- c:
	default:
		w.end()
	}
}

// end ends the watch. The server's lock is held.
func (w *watcher) end() {
	if !w.isEnded {
		w.isEnded = true
		close(w.ended)
	}
}

// watch streams events, after what there is if the client asks for that.
func (a answer) watch() error {
	q := a.r.URL.Query()
	selected, err := a.selection()
	if err != nil {
		return err
	}
	w := &watcher{kind: a.name, selected: selected, events: make(chan change, 100_000), ended: make(chan struct{})}
	s := a.server
	s.mu.Lock()
	var first []client.Object
	version := s.version
	if q.Get("sendInitialEvents") == "true" {
		first = a.chosen(selected)
	} else if err := s.replay(w, q.Get("resourceVersion")); err != nil {
		s.mu.Unlock()
		return err
	}
	s.watchers[w] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watchers, w)
		s.mu.Unlock()
	}()
	info := a.media()
	a.w.Header().Set("Content-Type", info.MediaType+map[bool]string{true: ";stream=watch"}[info.MediaType == runtime.ContentTypeProtobuf])
	a.w.WriteHeader(http.StatusOK)
	out := restwatch.NewEncoder(streaming.NewEncoder(info.StreamSerializer.NewFrameWriter(a.w), a.codecs().EncoderForVersion(info.StreamSerializer.Serializer, a.version)), a.encoder(info.Serializer))
	for _, o := range first {
		if err := out.Encode(&watch.Event{Type: watch.Added, Object: copied(o)}); err != nil {
			a.server.count("BROKEN "+err.Error(), a.name)
			return nil
		}
	}
	if q.Get("sendInitialEvents") == "true" {
		o := a.empty()
		o.SetName("")
		o.SetNamespace("")
		o.SetResourceVersion(strconv.FormatUint(max(version, 1), 10))
		o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		if err := out.Encode(&watch.Event{Type: watch.Bookmark, Object: o}); err != nil {
			return nil
		}
	}
	a.stream(w, out)
	return nil
}

// copied returns a copy of an object that shares all else with it: to encode an object sets its kind.
func copied(o runtime.Object) runtime.Object {
	c := reflect.New(reflect.TypeOf(o).Elem())
	c.Elem().Set(reflect.ValueOf(o).Elem())
	return c.Interface().(runtime.Object)
}

// stream sends events until either side ends the watch.
func (a answer) stream(w *watcher, out *restwatch.Encoder) {
	flush := a.w.(http.Flusher).Flush
	flush()
	for {
		select {
		case <-a.r.Context().Done():
			return
		case <-w.ended:
			return
		case c := <-w.events:
			if out.Encode(&watch.Event{Type: c.event.Type, Object: copied(c.event.Object)}) != nil {
				return
			}
			if len(w.events) == 0 {
				flush()
			}
		}
	}
}

// replay gives a watch what has happened since a version. The lock is held.
func (s *server) replay(w *watcher, since string) error {
	if since == "" || since == "0" {
		return nil
	}
	from, err := strconv.ParseUint(since, 10, 64)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	oldest := s.version
	if len(s.history) > 0 {
		oldest = s.history[0].version - 1
	}
	if from < oldest {
		return errGone
	}
	for _, c := range s.history {
		if c.version > from {
			w.deliver(c)
		}
	}
	return nil
}
