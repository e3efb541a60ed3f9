package operator

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// wireReading reads what the API server sends by translate.WireReader, which trims pods.
type wireReading struct {
	runtime.NegotiatedSerializer
	pods *translate.PodTrimmer
}

// DecoderToVersion returns what reads objects.
func (w wireReading) DecoderToVersion(s runtime.Decoder, v runtime.GroupVersioner) runtime.Decoder {
	return translate.WireReader{Decoder: w.NegotiatedSerializer.DecoderToVersion(s, v), Pods: w.pods}
}

// SupportedMediaTypes returns how objects may be written, and what reads watch events.
func (w wireReading) SupportedMediaTypes() []runtime.SerializerInfo {
	types := slices.Clone(w.NegotiatedSerializer.SupportedMediaTypes())
	for i := range types {
		if stream := types[i].StreamSerializer; stream != nil {
			lean := *stream
			lean.Serializer = translate.EventReader{Serializer: stream.Serializer}
			types[i].StreamSerializer = &lean
		}
	}
	return types
}

// readAheadSize is how much of an answer is read at once, in bytes.
const readAheadSize = 64 << 10

// readAhead reads the bodies of answers in large parts. What is read from an HTTP/2 stream is acknowledged once per part
// of 4 kB or more, with a write to the connection: a watch that reads event by event writes about as often as it reads.
type readAhead struct{ next http.RoundTripper }

// RoundTrip sends a request.
func (r readAhead) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := r.next.RoundTrip(request)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{bufio.NewReaderSize(answer.Body, readAheadSize), answer.Body}
	}
	return answer, err
}

// newInformer makes the informers of a cache.
type newInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// leanInformers returns what makes informers. Those of the kinds of which there are many read less of what the API
// server sends.
func leanInformers(config *rest.Config) (newInformer, error) {
	lean := map[reflect.Type]toolscache.ListerWatcher{}
	for _, kind := range []struct {
		object, list runtime.Object
		resource     schema.GroupVersionResource
	}{
		{&corev1.Pod{}, &corev1.PodList{}, corev1.SchemeGroupVersion.WithResource("pods")},
		{&corev1.Node{}, &corev1.NodeList{}, corev1.SchemeGroupVersion.WithResource("nodes")},
		{&karpenterv1.NodeClaim{}, &karpenterv1.NodeClaimList{}, karpenterv1.GroupVersion.WithResource("nodeclaims")},
	} {
		lists, err := leanListWatch(config, kind.resource, kind.list)
		if err != nil {
			return nil, &configError{fmt.Errorf("watch %s: %w", kind.resource.Resource, err)}
		}
		lean[reflect.TypeOf(kind.object)] = lists
	}
	return func(lists toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		if own := lean[reflect.TypeOf(object)]; own != nil {
			lists = own
		}
		return toolscache.NewSharedIndexInformer(lists, object, resync, indexers)
	}, nil
}

func leanListWatch(config *rest.Config, resource schema.GroupVersionResource, list runtime.Object) (toolscache.ListerWatcher, error) {
	scheme, version := Scheme(), resource.GroupVersion()
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == "" {
		config.APIPath, config.ContentType = "/api", runtime.ContentTypeProtobuf
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readAhead{next} })
	config.NegotiatedSerializer = wireReading{serializer.WithoutConversionCodecFactory{CodecFactory: serializer.NewCodecFactory(scheme)}, &translate.PodTrimmer{}}
	c, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	parameters := runtime.NewParameterCodec(scheme)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			into := list.DeepCopyObject()
			return into, c.Get().Resource(resource.Resource).VersionedParams(&opts, parameters).Do(ctx).Into(into)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.Watch, opts.AllowWatchBookmarks = true, true
			return c.Get().Resource(resource.Resource).VersionedParams(&opts, parameters).Watch(ctx)
		},
	}, nil
}
