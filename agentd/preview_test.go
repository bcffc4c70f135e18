package agentd_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/agentd/config"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// previewed is the preview of a body.
func (h *harness) previewed(body string) turns.Preview {
	h.t.Helper()
	a := h.do(http.MethodPost, "/responses/preview", body)
	if a.status != http.StatusOK {
		h.t.Fatalf("the preview is answered %d: %.300s", a.status, a.body)
	}
	p, err := turns.DecodePreview(a.body)
	expect.NoError(h.t, err)
	return p
}

// sent is what a provider was sent, as far as a preview shows it.
type sent struct {
	Model           string                     `json:"model"`
	Instructions    string                     `json:"instructions"`
	PromptCacheKey  string                     `json:"prompt_cache_key"`
	MaxOutputTokens *int                       `json:"max_output_tokens"`
	Reasoning       *responses.ReasoningConfig `json:"reasoning"`
	Input           []json.RawMessage          `json:"input"`
	Tools           []struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"tools"`
}

// A preview shows what the provider is sent when its body is posted, and makes nothing.
func TestAPreviewIsWhatIsSent(t *testing.T) {
	t.Parallel()
	p := &recorder{stream: responsesRound}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	h := assembled(t, nil, func(c *config.Config) {
		c.Models.Default, c.Models.OpenAIBaseURL, c.Models.OpenAIKey = "openai/gpt-5", server.URL, "sk-test"
	})
	expect.NoError(t, os.WriteFile(filepath.Join(h.cfg.Dirs.Workspace, "AGENTS.md"), []byte("Speak as a pirate."),
		0o600))
	before := tree(t, h.cfg.Dirs.Output)
	previous := ""
	for _, key := range []string{"", `"prompt_cache_key":"mine",`} {
		body := `{"input":"go",` + key + previous + `"instructions":"Be brief.","max_output_tokens":900,` +
			`"reasoning":{"effort":"low"},"holon":{"session_id":"sess_p"},"tools":[{"type":"function",` +
			`"name":"client","description":"d","parameters":{"type":"object"}}]}`
		shown := h.previewed(body)
		if n := h.health(); len(p.bodies) > 0 && previous == "" || n.ActiveTurns+n.QueuedTurns != 0 {
			t.Fatalf("a preview asked the model %d times, with %+v", len(p.bodies), n)
		}
		if now := tree(t, h.cfg.Dirs.Output); previous == "" && !slices.Equal(now, before) {
			t.Errorf("a preview leaves %q, want %q", now, before)
		}
		resp := h.post(body).response(t)
		previous = `"previous_response_id":"` + resp.ID + `",`
		var got sent
		expect.NoError(t, json.Unmarshal(p.bodies[len(p.bodies)-1], &got))
		same(t, shown, got)
	}
}

// A key that the provider's protocol has no place for is not sent, and not shown.
func TestAPreviewHasNoKeyThatIsNotSent(t *testing.T) {
	t.Parallel()
	p := &recorder{stream: chatRound}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	h := assembled(t, []string{"ACME_BASE_URL=" + server.URL}, func(c *config.Config) { c.Models.Default = "acme/m" })
	const body = `{"model":"acme/m","input":"go","prompt_cache_key":"mine"}`
	shown := h.previewed(body)
	h.post(body).response(t)
	if sent := string(p.bodies[0]); shown.PromptCacheKey != "" || strings.Contains(sent, "mine") {
		t.Errorf("the key is shown as %q, and sent in %s", shown.PromptCacheKey, sent)
	}
	if !strings.Contains(strings.Join(shown.Notes, "\n"), "no cache key is sent") {
		t.Errorf("the notes say nothing of the key: %q", shown.Notes)
	}
}

// tree lists the files below a directory.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	expect.NoError(t, err)
	return names
}

func same(t *testing.T, shown turns.Preview, got sent) {
	t.Helper()
	if shown.Model != "openai/"+got.Model || shown.PromptCacheKey != got.PromptCacheKey || got.PromptCacheKey == "" {
		t.Errorf("model and key are shown as %s %s, and sent as %s %s", shown.Model, shown.PromptCacheKey, got.Model,
			got.PromptCacheKey)
	}
	if shown.Instructions != got.Instructions || !strings.Contains(shown.Instructions, "Speak as a pirate.") {
		t.Errorf("the instructions shown are\n%s\nwant those that were sent, with AGENTS.md:\n%s", shown.Instructions,
			got.Instructions)
	}
	if *shown.MaxOutputTokens != *got.MaxOutputTokens || *shown.Reasoning.Effort != *got.Reasoning.Effort {
		t.Errorf("limit and effort are shown as %d %s, and sent as %d %s", *shown.MaxOutputTokens,
			*shown.Reasoning.Effort, *got.MaxOutputTokens, *got.Reasoning.Effort)
	}
	if len(shown.Input) != len(got.Input) || len(shown.Tools) != len(got.Tools) {
		t.Fatalf("%d items and %d tools are shown, %d and %d were sent", len(shown.Input), len(shown.Tools),
			len(got.Input), len(got.Tools))
	}
	last, want := shown.Tools[len(shown.Tools)-1], "client"
	if last.Server != want || shown.Tools[0].Server != "container" {
		t.Errorf("the tools are of %s … %s, want container … %s", shown.Tools[0].Server, last.Server, want)
	}
	for i, tool := range shown.Tools {
		if tool.Name != got.Tools[i].Name || !equalJSON(t, tool.Parameters, got.Tools[i].Parameters) {
			t.Errorf("tool %d is shown as %s %s, and sent as %+v", i, tool.Name, tool.Parameters, got.Tools[i])
		}
	}
	if shown.InputTokens == 0 || shown.WorkDir == "" || len(shown.Sources) == 0 || shown.ContextWindow == 0 {
		t.Errorf("%+v lacks what is known", shown)
	}
}

func equalJSON(t *testing.T, a, b json.RawMessage) bool {
	t.Helper()
	var one, two bytes.Buffer
	if json.Compact(&one, a) != nil || json.Compact(&two, b) != nil {
		t.Fatalf("%s or %s is no JSON", a, b)
	}
	return bytes.Equal(one.Bytes(), two.Bytes())
}

// A preview is answered while a turn of the same session runs, hides secrets and is refused as its turn would be.
func TestAPreviewWaitsForNoTurn(t *testing.T) {
	t.Parallel()
	h := startKnowing(t)
	running := h.later(t.Context(), `{"model":"gate/gate","input":"x","holon":{"session_id":"sess_p"}}`)
	h.gate.wait(t, 1)
	a := h.do(http.MethodPost, "/responses/preview", `{"model":"gate/gate","holon":{"session_id":"sess_p"},`+
		secretive+`}`)
	if a.status != http.StatusOK {
		t.Fatalf("the preview is answered %d: %.300s", a.status, a.body)
	}
	mustHide(t, "a preview", a.body)
	close(h.gate.release)
	if got := <-running; got.status != http.StatusOK {
		t.Errorf("the turn is answered %d, want 200", got.status)
	}
	for body, code := range map[string]string{`{"input":5}`: responses.CodeInvalidValue,
		`{"model":"acme/unknown","input":"x"}`:     responses.CodeModelNotFound,
		`{"model":"gate/gate","input":" "}`:        responses.CodeMissingParameter,
		`{"input":"x","previous_response_id":"r"}`: responses.CodePreviousNotFound,
	} {
		if e := h.do(http.MethodPost, "/responses/preview", body).failure(t); e.Code != code {
			t.Errorf("%s is refused with %s, want %s", body, e.Code, code)
		}
	}
}
