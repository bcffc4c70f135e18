package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/caarlos0/env/v11"

	"holon/internal/redact"
	"holon/runner/telemetry"
	"holon/state"
	"holon/state/ledger"
)

// telemetryVariables are those of OpenTelemetry that say whether anything is exported, and what. The SDK reads the same
// ones and the others.
type telemetryVariables struct {
	All      signalVariables `envPrefix:"OTEL_EXPORTER_OTLP_"`
	Traces   signalVariables `envPrefix:"OTEL_EXPORTER_OTLP_TRACES_"`
	Metrics  signalVariables `envPrefix:"OTEL_EXPORTER_OTLP_METRICS_"`
	TracesBy string          `env:"OTEL_TRACES_EXPORTER"`
	MetricBy string          `env:"OTEL_METRICS_EXPORTER"`
	Disabled string          `env:"OTEL_SDK_DISABLED"`
	Content  string          `env:"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"`
}

// signalVariables are those of all signals, or of one.
type signalVariables struct {
	Endpoint string `env:"ENDPOINT"`
	Protocol string `env:"PROTOCOL"`
	Headers  string `env:"HEADERS"`
}

// openTelemetry starts what exports traces and metrics, nil when no variable asks for it. Variables that cannot be
// right are logged and turn it off: they are often meant for other programs, and no turn fails for them.
func openTelemetry(ctx context.Context, secrets *redact.Set, log *slog.Logger) *telemetry.Exporter {
	var v telemetryVariables
	err := env.Parse(&v)
	o := telemetry.Options{Version: buildVersion(), Secrets: secrets, Log: log,
		Content: strings.EqualFold(v.Content, "true"),
		Traces:  v.exports(v.TracesBy, v.Traces.Endpoint),
		Metrics: v.exports(v.MetricBy, v.Metrics.Endpoint)}
	if !o.Traces && !o.Metrics {
		return nil
	}
	v.hide(secrets)
	var e *telemetry.Exporter
	if err = cmp.Or(err, v.check()); err == nil {
		e, err = telemetry.Open(ctx, o)
	}
	if err != nil {
		log.Warn("there is no telemetry", "err", err)
		return nil
	}
	return e
}

// hide makes the values of headers secrets, as they are given and as they are sent, and keys behind a scheme such as
// Bearer by themselves.
func (v *telemetryVariables) hide(secrets *redact.Set) {
	for _, list := range []string{v.All.Headers, v.Traces.Headers, v.Metrics.Headers} {
		for pair := range strings.SplitSeq(list, ",") {
			_, value, _ := strings.Cut(pair, "=")
			for _, form := range []func(string) (string, error){func(s string) (string, error) { return s, nil },
				url.PathUnescape} {
				text, err := form(strings.TrimSpace(value))
				if err != nil {
					continue // the SDK leaves it out
				}
				secrets.Add("header of telemetry", text)
				if _, key, ok := strings.Cut(text, " "); ok {
					secrets.Add("header of telemetry", key)
				}
			}
		}
	}
}

// queued returns how many messages wait for all agents.
func (h *agentHost) queued(ctx context.Context) (n int64, err error) {
	err = h.ledger.View(ctx, func(v ledger.View) error {
		agents, err := v.Agents()
		for _, a := range agents {
			waiting, err := v.CountQueued(a.ID)
			if err != nil && !state.IsCode(err, ledger.CodeUnreadable) { // it does not hide the others
				return err
			}
			n += int64(waiting)
		}
		return err
	})
	return n, err
}

// exports reports whether a signal is exported whose own endpoint and exporter are given.
func (v *telemetryVariables) exports(exporter, endpoint string) bool {
	return !strings.EqualFold(v.Disabled, "true") && cmp.Or(endpoint, v.All.Endpoint) != "" &&
		(exporter == "" || exporter == "otlp")
}

// check refuses what the SDK would silently replace by a default.
func (v *telemetryVariables) check() error {
	for prefix, s := range map[string]signalVariables{"": v.All, "TRACES_": v.Traces, "METRICS_": v.Metrics} {
		prefix = "OTEL_EXPORTER_OTLP_" + prefix
		u, err := url.Parse(s.Endpoint)
		if s.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return fmt.Errorf("%sENDPOINT is not a URL like http://127.0.0.1:4318", prefix)
		}
		if s.Protocol != "" && s.Protocol != "http/protobuf" {
			return fmt.Errorf("%sPROTOCOL is %.40q, and only http/protobuf is spoken", prefix, s.Protocol)
		}
	}
	return nil
}
