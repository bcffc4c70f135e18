// Package telemetrytest is a collector of OpenTelemetry for tests: it takes OTLP over HTTP on loopback, in protobuf,
// and keeps what it got.
package telemetrytest

import (
	"cmp"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

type Collector struct {
	URL    string
	server *httptest.Server

	mu      sync.Mutex
	raw     []byte
	spans   []*trace.Span
	metrics map[string]*metrics.Metric
	service string
	changed func() // may be nil
}

// Start starts a collector. changed, if it is not nil, is called when something came.
func Start(changed func()) *Collector {
	c := &Collector{metrics: make(map[string]*metrics.Metric), changed: changed}
	c.server = httptest.NewServer(c)
	c.URL = c.server.URL
	return c
}

func (c *Collector) Close() { c.server.Close() }

func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err == nil {
		err = c.take(r.URL.Path, data)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	if c.changed != nil {
		c.changed()
	}
}

func (c *Collector) take(path string, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, data...)
	if path == "/v1/traces" {
		var req tracepb.ExportTraceServiceRequest
		if err := proto.Unmarshal(data, &req); err != nil {
			return err
		}
		for _, from := range req.ResourceSpans {
			c.service = value(from.Resource.Attributes, "service.name")
			for _, scope := range from.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
		return nil
	}
	var req metricspb.ExportMetricsServiceRequest
	if err := proto.Unmarshal(data, &req); err != nil {
		return err
	}
	for _, from := range req.ResourceMetrics {
		for _, scope := range from.ScopeMetrics {
			for _, m := range scope.Metrics {
				c.metrics[m.Name] = m // sums since the start
			}
		}
	}
	return nil
}

// Spans returns the spans that came, by the time of their begin.
func (c *Collector) Spans() []*trace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	sorted := slices.Clone(c.spans)
	slices.SortStableFunc(sorted, func(a, b *trace.Span) int {
		return cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano)
	})
	return sorted
}

// Metric returns the newest of a metric, nil if none came.
func (c *Collector) Metric(name string) *metrics.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics[name]
}

func (c *Collector) Service() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.service
}

// Has reports whether text is anywhere in what came.
func (c *Collector) Has(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Contains(string(c.raw), text)
}

// Tree returns the names of the spans that came, each behind those above it.
func Tree(spans []*trace.Span) (paths []string) {
	byID := make(map[string]*trace.Span)
	for _, s := range spans {
		byID[hex.EncodeToString(s.TraceId)+hex.EncodeToString(s.SpanId)] = s
	}
	for _, s := range spans {
		path := s.Name
		for at := s; len(at.ParentSpanId) > 0; path = at.Name + " > " + path {
			if at = byID[hex.EncodeToString(at.TraceId)+hex.EncodeToString(at.ParentSpanId)]; at == nil {
				path = "? > " + path
				break
			}
		}
		paths = append(paths, path)
	}
	return paths
}

// Attribute returns an attribute of a span as text, "" for none.
func Attribute(s *trace.Span, key string) string { return value(s.Attributes, key) }

func value(list []*common.KeyValue, key string) string {
	for _, kv := range list {
		if kv.Key != key {
			continue
		}
		if text, ok := kv.Value.Value.(*common.AnyValue_StringValue); ok {
			return text.StringValue
		}
		return kv.Value.String()
	}
	return ""
}
