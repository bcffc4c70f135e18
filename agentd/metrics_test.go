package agentd_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"holon/agentd"
	"holon/test/expect"
)

// scrape returns the samples of GET path by name and labels, as Prometheus reads them.
func (h *harness) scrape(path string) map[string]float64 {
	h.t.Helper()
	a := h.do(http.MethodGet, path, "")
	expect.Equal(h.t, "Content-Type", a.header.Get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8")
	return samples(h.t, a.body)
}

func samples(t *testing.T, text []byte) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("Prometheus cannot read the metrics: %v\n%s", err, text)
	}
	all := make(map[string]float64)
	for name, family := range families {
		if family.GetHelp() == "" || family.GetType() == dto.MetricType_UNTYPED {
			t.Errorf("%s has help %q and type %s, want both", name, family.GetHelp(), family.GetType())
		}
		for _, m := range family.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			all[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return all
}

// The metrics of a server that runs turns of every end.
func TestMetrics(t *testing.T) {
	t.Parallel()
	h := start(t)
	before := h.scrape("/metrics")
	for _, name := range []string{"turns_total completed", "turns_total failed", "turns_total incomplete",
		"turns_total cancelled", "turns_active", "turns_queued", "tokens_total input", "tokens_total output", "stored_bytes"} {
		if got, ok := before["agentd_"+name]; !ok || got != 0 {
			t.Errorf("at the start, %s is %v (there: %t), want 0", name, got, ok)
		}
	}
	model := h.scenario("metrics", `
rounds:
  - calls:
      - {tool: ExecCommand, arguments: {cmd: "true"}}
      - {tool: ExecCommand, arguments: {cmd: 7}}
      - {tool: "in\"vented", arguments: {}}
    usage: {input_tokens: 100, output_tokens: 10}
  - text: done
    usage: {input_tokens: 200, output_tokens: 20}
`)
	fails := h.scenario("fails", "rounds: [{error: {status: 401, message: no}}]")
	h.post(fmt.Sprintf(`{"model":%q,"input":"x"}`, model)).response(t)
	h.post(fmt.Sprintf(`{"model":%q,"input":"x","max_tool_calls":1}`, model))
	h.post(fmt.Sprintf(`{"model":%q,"input":"x","store":false}`, fails))
	for _, path := range []string{"/metrics", "/v1/metrics"} {
		got := h.scrape(path)
		for name, want := range map[string]float64{
			"turns_total completed": 1, "turns_total incomplete": 1, "turns_total failed": 1, "turns_total cancelled": 0,
			"turns_active": 0, "turns_queued": 0, "tool_calls_total ExecCommand success": 2,
			"tool_calls_total ExecCommand error": 1, "tool_calls_total other error": 1,
		} {
			if got["agentd_"+name] != want {
				t.Errorf("%s: %s is %v, want %v; all: %v", path, name, got["agentd_"+name], want, got)
			}
		}
		if in, out := got["agentd_tokens_total input"], got["agentd_tokens_total output"]; in < 300 || out < 30 {
			t.Errorf("%v input and %v output tokens, want at least 300 and 30", in, out)
		}
		if got["agentd_stored_bytes"] <= 0 {
			t.Errorf("%v stored bytes, want more than 0", got["agentd_stored_bytes"])
		}
	}
}

// Names of tools are a server's: any text is one label, and a flood of names is
// a bounded number of series.
func TestMetricsHoldHostileNames(t *testing.T) {
	t.Parallel()
	names := []string{"a\"} 1\nforged_total 7\n#\\", "\xff\xfe", "", "\\"}
	for i := range 1000 {
		names = append(names, fmt.Sprintf("tool%d", i))
	}
	got := samples(t, []byte(agentd.MetricsOfTools(names)))
	if _, forged := got["forged_total"]; forged {
		t.Error("a name of a tool made a metric")
	}
	series := 0
	for name := range got {
		if strings.HasPrefix(name, "agentd_tool_calls_total") {
			series++
		}
	}
	if want := 201; series != want {
		t.Errorf("%d series of tool calls, want %d", series, want)
	}
	if want := float64(len(names) - 200); got["agentd_tool_calls_total other success"] != want {
		t.Errorf("%v calls of other tools, want %v", got["agentd_tool_calls_total other success"], want)
	}
}
