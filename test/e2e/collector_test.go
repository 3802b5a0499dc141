package e2e_test

import (
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector takes in spans as an OpenTelemetry collector does, by OTLP over HTTP.
type collector struct {
	url string

	mu       sync.Mutex
	came     []span
	resource map[string]string // of the last request
	requests atomic.Int64
}

// span is one that was exported.
type span struct {
	Name, Trace, ID, Parent string
	Kind                    otlp.Span_SpanKind
	Failed                  bool
	Attributes              map[string]string
	Links                   []spanLink
	Start, End              uint64
}

// spanLink is a link of a span. What says what to; "": it was not said.
type spanLink struct{ Trace, ID, What string }

func newCollector(t *testing.T) *collector {
	c := &collector{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// environment is that of an agent that exports to the collector without delay.
func (c *collector) environment(more ...string) []string {
	return append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_BSP_SCHEDULE_DELAY=50"}, more...)
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.requests.Add(1)
	body, err := io.ReadAll(r.Body)
	var in collect.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &in)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "this is no OTLP", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range in.GetResourceSpans() {
		c.resource = texts(rs.GetResource().GetAttributes())
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				c.came = append(c.came, read(s))
			}
		}
	}
}

// read reads a span as it was sent.
func read(s *otlp.Span) span {
	id := hex.EncodeToString
	is := span{
		Name: s.GetName(), Trace: id(s.GetTraceId()), ID: id(s.GetSpanId()), Parent: id(s.GetParentSpanId()), Kind: s.GetKind(),
		Failed:     s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR,
		Attributes: texts(s.GetAttributes()), Start: s.GetStartTimeUnixNano(), End: s.GetEndTimeUnixNano(),
	}
	for _, l := range s.GetLinks() {
		is.Links = append(is.Links, spanLink{id(l.GetTraceId()), id(l.GetSpanId()), texts(l.GetAttributes())["leasehold.link"]})
	}
	return is
}

// texts are attributes as text.
func texts(all []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range all {
		switch v := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			m[kv.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			m[kv.GetKey()] = strconv.FormatInt(v.IntValue, 10)
		case *common.AnyValue_BoolValue:
			m[kv.GetKey()] = strconv.FormatBool(v.BoolValue)
		}
	}
	return m
}

// spans lists what came, by trace and span id. Each has come once.
func (c *collector) spans(t *testing.T) map[string]span {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]span{}
	for _, s := range c.came {
		require.NotContains(t, all, s.Trace+" "+s.ID, "exported twice: %+v", s)
		all[s.Trace+" "+s.ID] = s
	}
	return all
}

// named lists the spans of a name, the earliest first.
func named(all map[string]span, name string) []span {
	return slices.SortedFunc(func(yield func(span) bool) {
		for s := range maps.Values(all) {
			if s.Name == name && !yield(s) {
				return
			}
		}
	}, func(a, b span) int { return int(a.Start) - int(b.Start) })
}

// linked lists what a span links to as what.
func (s *span) linked(all map[string]span, what string) (to []span) {
	for _, l := range s.Links {
		if l.What == what {
			to = append(to, all[l.Trace+" "+l.ID])
		}
	}
	return to
}
