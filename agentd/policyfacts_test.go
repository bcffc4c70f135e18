package agentd_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"holon/agentd/config"
	"holon/responses/turns"
	"holon/test/expect"
)

// payloads are those of the facts of a class of a turn.
func (h *harness) payloads(turnID, class string) (list []map[string]any) {
	h.t.Helper()
	for _, text := range h.facts(turnID, class) {
		var p map[string]any
		expect.NoError(h.t, json.Unmarshal([]byte(text), &p))
		list = append(list, p)
	}
	return list
}

func TestFactsOfWhatATurnMayDo(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("work", "rounds:\n  - calls: [{tool: ApplyPatch, arguments: {}}, "+
		"{tool: ExecCommand, arguments: {cmd: pwd, workdir: /etc}}, "+
		"{tool: ExecCommand, arguments: {cmd: 'seq 5000', max_output_tokens: 50}}]\n  - text: Done.\n")
	h.post(`{"model":"` + ref + `","input":"go","holon":{"turn_id":"turn_a","session_id":"session_a"},` +
		`"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"ExecCommand"}]}}`)
	for class, want := range map[string]map[string]any{
		turns.PermissionDecided: {"tool_name": "ApplyPatch", "decision": "deny", "decision_source": "rule",
			"decision_reason": `the tool "ApplyPatch" may not be called in this response`},
		turns.SandboxViolated: {"axis": "filesystem", "outcome": "blocked",
			"attempted": "requested working directory is outside the current execution root"},
	} {
		if got := h.payloads("turn_a", class); len(got) != 1 || !maps.Equal(got[0], want) {
			t.Errorf("%s of the turn: %v, want one: %v", class, got, want)
		}
	}
	cut := h.payloads("turn_a", turns.OutputTruncated)
	if len(cut) != 1 || cut[0]["size_bytes"] != 23893.0 || cut[0]["kept_bytes"].(float64) >= 23893 {
		t.Errorf("output.truncated: %v, want one of 23893 bytes with less shown", cut)
	}
	policy, reads := map[string]string{}, map[string]any{}
	for _, item := range h.payloads("turn_a", turns.CatalogResolved)[0]["tools"].([]any) {
		tool := item.(map[string]any)
		policy[tool["tool_name"].(string)] = tool["policy"].(string)
		reads[tool["tool_name"].(string)] = tool["is_read_only"]
		if tool["is_destructive"] == nil || tool["is_concurrency_safe"] == nil || tool["interrupt_behavior"] == nil ||
			tool["runtime_owner"] != "agentd" || tool["capabilities"] == nil {
			t.Errorf("the catalog lacks traits of %v", tool)
		}
	}
	if reads["ViewImage"] != true || reads["ExecCommand"] != false {
		t.Errorf("read-only are %v, want ViewImage and not ExecCommand", reads)
	}
	if policy["ExecCommand"] != "allow" || policy["ApplyPatch"] != "deny" {
		t.Errorf("the policies are %v, want allow for ExecCommand and deny for ApplyPatch", policy)
	}
}

// Arguments that an event cannot hold stand whole in a file of the turn.
func TestLongArgumentsAreKept(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("work", "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: 'true "+
		strings.Repeat("x", 30_000)+"'}}, {tool: ExecCommand, arguments: {cmd: 'true'}}]\n  - text: Done.\n")
	h.post(`{"model":"` + ref + `","input":"go","holon":{"turn_id":"turn_a"}}`)
	begun := h.payloads("turn_a", turns.ToolStarted)
	if len(begun) != 2 || begun[0]["args_truncated"] != true || begun[1]["args_truncated"] != nil {
		t.Fatalf("tool.started: %.200v, want two, of which the first is cut", begun)
	}
	name, _ := begun[0]["input_ref"].(string)
	data, err := os.ReadFile(h.file("turn_a", name))
	sum := sha256.Sum256(data)
	if err != nil || len(data) < 30_000 || begun[0]["args_digest"] != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("%q has %d bytes (%v), want the arguments, with the digest %v", name, len(data), err,
			begun[0]["args_digest"])
	}
}

func TestACatalogIsListedWhenItChanges(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("work", "rounds:\n  - text: Done.\n")
	previous := ""
	var revisions, listed []string
	for _, tt := range []struct{ id, tools string }{{"turn_a", ""}, {"turn_b", ""},
		{"turn_c", `,"tools":[{"type":"function","name":"mine"}]`}} {
		resp := h.post(`{"model":"` + ref + `","input":"go"` + tt.tools + previous + `,"holon":{"turn_id":"` + tt.id + `"}}`).
			response(t)
		previous = `,"previous_response_id":"` + resp.ID + `"`
		c := h.payloads(tt.id, turns.CatalogResolved)[0]
		revisions = append(revisions, c["revision"].(string))
		if list, ok := c["tools"].([]any); ok {
			listed = append(listed, tt.id)
			if c["tool_count"] != float64(len(list)) {
				t.Errorf("%s counts %v tools and lists %d", tt.id, c["tool_count"], len(list))
			}
		} else if c["inventory_ref"] != c["revision"] {
			t.Errorf("%s refers to %v, want its revision %v", tt.id, c["inventory_ref"], c["revision"])
		}
	}
	if revisions[0] != revisions[1] || revisions[1] == revisions[2] ||
		!slices.Equal(listed, []string{"turn_a", "turn_c"}) {
		t.Errorf(
			"revisions %v, listed by %v, want a new revision and list with the first and the last",
			revisions,
			listed,
		)
	}
}

// What the record says of a rate limit is the provider's word, also where no attempt follows.
func TestARateLimitIsToldAsTheProviderSaysIt(t *testing.T) {
	t.Parallel()
	limited := func(header string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if header != "" {
				w.Header().Set("Retry-After", header)
			}
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}
	first, _ := provider(t, limited("0.001"), limited(""), limited("40"))
	h := assembled(t, []string{"FIRST_BASE_URL=" + first}, func(c *config.Config) {
		c.Models.Default, c.Models.Providers = "first/m", "first"
	})
	h.post(`{"input":"go","holon":{"turn_id":"turn_a"}}`)
	var got []any
	for _, p := range h.payloads("turn_a", turns.RateLimitHit) {
		got = append(got, p["retry_after_ms"])
	}
	if want := []any{1.0, nil, 40000.0}; !slices.Equal(got, want) {
		t.Errorf("the provider says to wait %v ms, want %v", got, want)
	}
}
