package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"holon/internal/tracecontext"
)

// spanSender sends spans and keeps errors from the SDK, which would print them.
type spanSender struct {
	sdktrace.SpanExporter
	exporter *Exporter
	alive    context.Context // sending ends with it
	ended    chan struct{}   // closed by Shutdown
}

// ExportSpans implements sdktrace.SpanExporter.
func (s *spanSender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := s.alive.Err(); err != nil { // the rest of the queue is not even encoded
		s.exporter.sent(len(spans), err)
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.alive, cancel)()
	s.exporter.sent(len(spans), s.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// Shutdown implements sdktrace.SpanExporter. The queue is empty when it is called.
func (s *spanSender) Shutdown(ctx context.Context) error {
	defer close(s.ended)
	return s.SpanExporter.Shutdown(ctx)
}

// metricSender does the same with metrics.
type metricSender struct {
	metric.Exporter
	exporter *Exporter
	alive    context.Context
}

// Export implements metric.Exporter.
func (s *metricSender) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.alive, cancel)()
	s.exporter.sent(0, s.Exporter.Export(ctx, data))
	return nil
}

// counted counts the spans that are handed to the queue, which does not say how many it drops.
type counted struct {
	sdktrace.SpanProcessor
	exporter *Exporter
}

// OnEnd implements sdktrace.SpanProcessor.
func (c *counted) OnEnd(s sdktrace.ReadOnlySpan) {
	c.exporter.made.Add(1)
	c.SpanProcessor.OnEnd(s)
}

// derived is the generator of ids: a span has the id that tracecontext gives it.
type derived struct{}

// NewIDs implements sdktrace.IDGenerator.
func (derived) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	at := tracecontext.Of(ctx)
	return at.Trace, at.ID
}

// NewSpanID implements sdktrace.IDGenerator.
func (derived) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return tracecontext.Of(ctx).ID
}
