package control_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/runner/agent/scheduler"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state/ledger"
	"holon/test/expect"
)

var update = flag.Bool("update", false, "write the golden files")

// The answers to clients are a contract. Ids are told apart by the order in which they come.
func TestGoldenAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	c, ctx := r.client(), t.Context()
	must(c.Prompt(ctx, "", wire.Prompt{Text: "Summarise the log.\nAll of it.", CorrelationID: "corr-1"}, ""))(t)
	r.turn("main", "It is short.")
	must(c.CreateTimer(ctx, "", wire.Timer{DurationMS: 3_600_000, Summary: "hourly"}, ""))(t)
	must(c.Trigger(ctx, ""))(t)
	must(c.SetModel(ctx, "", wire.Model{Model: "scripted/else"}))(t)
	expect.NoError(t, r.machine.Notify(ctx, "main", "Look at this.\nIt is odd."))
	must(c.Prompt(ctx, "", wire.Prompt{Text: "Then rest."}, ""))(t)
	claim, _, err := r.machine.Claim(ctx, "main")
	expect.NoError(t, err)
	must(r.machine.Sleep(ctx, "main", "call_1", 0, "nothing to do"))(t)
	must(r.machine.Wake(ctx, scheduler.Wake{AgentID: "main", Context: "local_process",
		WakeHint: ledger.WakeHint{Reason: "look", Description: "the build is done"}}))(t)
	n := names{seen: map[string]string{claim.Attempt.Owner: "OWNER", r.store.Epoch(): "EPOCH", r.addr: "ADDR"}}
	for _, q := range []request{
		get("/"), get("/handshake"), get("/models"), get("/agents/list"), get("/status"), get("/state"), get("/briefs"),
		get("/transcript"), get("/agents/main/timers"),
		get("/agents/main/latency"), get("/agents/main/events?limit=500"),
		get("/agents/main/events?limit=1&order=desc&projection=local_debug"),
		get("/control/runtime/status"), get("/control/runtime/readiness"), get("/metrics"),
		get("/agents/nobody/status"), post("/enqueue", `{"text":"x","trust":"trusted_operator"}`),
		{method: "GET", path: "/status", tcp: true, header: map[string]string{"Authorization": ""}},
	} {
		a := r.ask(d, q)
		name := strings.Trim(strings.NewReplacer("/", "-", "?", "-", "=", "-", "&", "-").Replace(q.path), "-")
		if q.method != "GET" || a.status != 200 {
			name += fmt.Sprint("-", a.status)
		}
		if name == "" {
			name = "root"
		}
		golden(t, name, n.normal(a))
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "answers", name+".golden")
	if *update {
		expect.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	expect.NoError(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// names replaces what differs from run to run.
type names struct{ seen map[string]string }

var variable = regexp.MustCompile(`\b(?:[a-z]+_[0-9a-hjkmnp-tv-z]{26}|20\d\d-\d\d-\d\dT[0-9:.]+Z)\b`)

var answered = regexp.MustCompile(`(?m)^(go_goroutines|holon_requests_total\{.*\}) \d+$`)

func (n names) normal(a answer) []byte {
	text := []byte(a.body)
	if json.Valid(text) {
		var indented bytes.Buffer
		if err := json.Indent(&indented, text, "", "  "); err == nil {
			text = indented.Bytes()
		}
	}
	out := variable.ReplaceAllStringFunc(string(text), func(s string) string {
		if strings.HasPrefix(s, "20") {
			return "TIME"
		}
		if n.seen[s] == "" {
			prefix, _, _ := strings.Cut(s, "_")
			n.seen[s] = fmt.Sprintf("%s_%d", prefix, len(n.seen))
		}
		return n.seen[s]
	})
	out = answered.ReplaceAllString(out, "$1 N") // an answer is counted when it is on its way
	for was, is := range n.seen {
		out = strings.ReplaceAll(out, was, is)
	}
	return []byte(fmt.Sprint(a.status, " ", a.header.Get("Content-Type"), "\n", strings.TrimRight(out, "\n"), "\n"))
}
