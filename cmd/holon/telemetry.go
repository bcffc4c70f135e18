package main

import (
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
	Endpoint        string `env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	TracesEndpoint  string `env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"`
	MetricsEndpoint string `env:"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"`
	Traces          string `env:"OTEL_TRACES_EXPORTER"`
	Metrics         string `env:"OTEL_METRICS_EXPORTER"`
	Protocol        string `env:"OTEL_EXPORTER_OTLP_PROTOCOL"`
	TracesProtocol  string `env:"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"`
	MetricsProtocol string `env:"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"`
	Headers         string `env:"OTEL_EXPORTER_OTLP_HEADERS"`
	TracesHeaders   string `env:"OTEL_EXPORTER_OTLP_TRACES_HEADERS"`
	MetricsHeaders  string `env:"OTEL_EXPORTER_OTLP_METRICS_HEADERS"`
	Disabled        string `env:"OTEL_SDK_DISABLED"`
	Content         string `env:"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"`
}

// openTelemetry starts what exports traces and metrics, nil when no variable asks for it. Variables that cannot be
// right are logged and turn it off: they are often meant for other programs, and no turn fails for them.
func openTelemetry(ctx context.Context, secrets *redact.Set, log *slog.Logger) *telemetry.Exporter {
	var v telemetryVariables
	if err := env.Parse(&v); err != nil { // it is all text
		log.Warn("there is no telemetry", "err", err)
		return nil
	}
	o := telemetry.Options{Version: buildVersion(), Secrets: secrets, Log: log,
		Content: strings.EqualFold(v.Content, "true"),
		Traces:  v.exports(v.Traces, v.TracesEndpoint), Metrics: v.exports(v.Metrics, v.MetricsEndpoint)}
	if !o.Traces && !o.Metrics {
		return nil
	}
	v.hide(secrets)
	if err := v.check(); err != nil {
		log.Warn("there is no telemetry", "err", err)
		return nil
	}
	e, err := telemetry.Open(ctx, o)
	if err != nil {
		log.Warn("there is no telemetry", "err", err)
		return nil
	}
	return e
}

// hide makes the values of headers secrets, as they are given and as they are sent, and keys behind a scheme such as
// Bearer by themselves.
func (v *telemetryVariables) hide(secrets *redact.Set) {
	for _, list := range []string{v.Headers, v.TracesHeaders, v.MetricsHeaders} {
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
	return !strings.EqualFold(v.Disabled, "true") && (endpoint != "" || v.Endpoint != "") &&
		(exporter == "" || exporter == "otlp")
}

// check refuses what the SDK would replace by a default, and say so nowhere.
func (v *telemetryVariables) check() error {
	for name, value := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": v.Endpoint,
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": v.TracesEndpoint, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": v.MetricsEndpoint} {
		u, err := url.Parse(value)
		if value != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return fmt.Errorf("%s is not a URL like http://127.0.0.1:4318", name)
		}
	}
	for name, value := range map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": v.Protocol,
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL":  v.TracesProtocol,
		"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": v.MetricsProtocol} {
		if value != "" && value != "http/protobuf" {
			return fmt.Errorf("%s is %.40q, and only http/protobuf is spoken", name, value)
		}
	}
	return nil
}
