// Package telemetry makes OpenTelemetry traces and metrics of the turns of agents, and sends them by OTLP over HTTP.
//
//	runner ─▶ Begin ─▶ Turn ◀─ facts of agentd
//	                    │ End
//	                    ▼
//	   spans and measurements ─▶ bounded queue ─▶ collector
//
// The spans of a turn are made when it has ended: invoke_agent, as the host sees the turn, below it the turn as agentd
// does, and below that one for each model request and tool call. A turn that is left to another process is reported by
// that process alone, since the facts are read from the first one again.
//
// The invariant: a turn neither waits nor fails because of telemetry. What the collector does not take is dropped and
// counted. Facts come from a container and are not trusted: ids, names, numbers, times and the number of spans are
// bounded here. No text of prompts, answers, arguments or results is in a span unless Options.Content says so.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	metricapi "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"holon/internal/redact"
	"holon/internal/tracecontext"
)

// Bounds of what waits for the collector, and of the wait for it at the end.
const (
	queueSize   = 8192 // spans
	flushWithin = 2 * time.Second
	cardinality = 500 // combinations of the attributes of a metric
)

// scope names the instrumentation.
const scope = "holon"

// Options are what is exported. Where to, and with which headers and sampler, the SDK reads from the variables of
// OpenTelemetry.
type Options struct {
	Traces, Metrics bool
	Content         bool        // spans have prompts, answers, arguments and results
	Version         string      // of holon
	Secrets         *redact.Set // what no span may show
	Log             *slog.Logger
}

// Exporter sends what turns did. A nil *Exporter does nothing. Its methods are safe for concurrent use.
type Exporter struct {
	options Options
	tracer  trace.Tracer // nil without traces
	measure *instruments // nil without metrics
	meter   metricapi.Meter
	stop    []func(context.Context) error
	abort   context.CancelFunc // ends what is being sent

	made, tried, lost atomic.Int64 // spans
	failing           atomic.Bool
}

// Open starts what sends. It does not connect: a collector that is not there is found out later, and logged.
func Open(ctx context.Context, o Options) (*Exporter, error) {
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "holon"),
		attribute.String("service.version", o.Version)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe this process to the collector: %w", err)
	}
	alive, abort := context.WithCancel(context.WithoutCancel(ctx))
	e := &Exporter{options: o, abort: abort}
	if o.Traces {
		client, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("prepare to send traces: %w", err), e.Close())
		}
		sender := &spanSender{client, e, alive, make(chan struct{})}
		queue := sdktrace.NewBatchSpanProcessor(sender, sdktrace.WithMaxQueueSize(queueSize))
		provider := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithIDGenerator(derived{}),
			sdktrace.WithSpanProcessor(&counted{queue, e}))
		e.tracer, e.stop = provider.Tracer(scope), append(e.stop, func(ctx context.Context) error {
			err := provider.Shutdown(ctx)
			<-sender.ended // soon: when ctx is over, nothing is sent any more
			return err
		})
	}
	if o.Metrics {
		client, err := otlpmetrichttp.New(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("prepare to send metrics: %w", err), e.Close())
		}
		provider := metric.NewMeterProvider(metric.WithResource(about), metric.WithCardinalityLimit(cardinality),
			metric.WithReader(metric.NewPeriodicReader(&metricSender{client, e, alive})))
		e.stop = append(e.stop, provider.Shutdown)
		e.meter = provider.Meter(scope)
		if e.measure, err = newInstruments(e.meter); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare metrics: %w", err), e.Close())
		}
	}
	return e, nil
}

// Gauge adds a metric that read is asked for each time when metrics are sent. When it fails there is no value.
func (e *Exporter) Gauge(name, unit, about string, read func(context.Context) (int64, error)) {
	if e == nil || e.meter == nil {
		return
	}
	_, err := e.meter.Int64ObservableGauge(name, metricapi.WithUnit(unit), metricapi.WithDescription(about),
		metricapi.WithInt64Callback(func(ctx context.Context, to metricapi.Int64Observer) error {
			n, err := read(ctx)
			if err != nil {
				e.options.Log.Debug("a metric has no value", "metric", name, "err", err)
				return nil
			}
			to.Observe(n)
			return nil
		}))
	if err != nil { // the name is not one
		e.options.Log.Warn("a metric is left out", "metric", name, "err", err)
	}
}

// Close sends what waits, for flushWithin at most each for traces and metrics, and says in the log how many spans were
// lost. Turns that end later are not reported.
func (e *Exporter) Close() error {
	if e == nil {
		return nil
	}
	defer e.abort()
	for _, stop := range e.stop {
		ctx, cancel := context.WithTimeout(context.Background(), flushWithin) // the process's own may be over
		keep := context.AfterFunc(ctx, e.abort)
		if err := stop(ctx); err != nil {
			e.options.Log.Debug("telemetry did not end in time", "err", err)
		}
		keep()
		cancel()
	}
	if lost := e.Lost(); lost > 0 {
		e.options.Log.Warn("spans were lost", "spans", lost)
	}
	return nil
}

// Lost returns how many spans the collector did not take, or there was no room for. Before Close those that wait
// count too.
func (e *Exporter) Lost() int64 { return e.lost.Load() + e.made.Load() - e.tried.Load() }

// sent notes how sending n spans, or metrics, ended, and logs when that changes.
func (e *Exporter) sent(n int, err error) {
	e.tried.Add(int64(n))
	if err != nil {
		e.lost.Add(int64(n))
	}
	if failing := err != nil; e.failing.Swap(failing) != failing {
		if failing {
			e.options.Log.Warn("telemetry is lost: the collector does not take it", "err", err)
		} else {
			e.options.Log.Info("the collector takes telemetry again")
		}
	}
}

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
