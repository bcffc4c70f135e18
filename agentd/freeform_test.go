package agentd_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/agentd"
	"holon/agentd/config"
	"holon/agentd/model/endpoint"
	"holon/agentd/model/openai"
	"holon/test/expect"
)

// A patch that a model writes as plain text changes the tree, is stored as every
// other call, and is told again in the form that the transport has by then.
func TestFreeformPatch(t *testing.T) {
	t.Parallel()
	var asked []string
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked = append(asked, string(body))
		w.Header().Set("Content-Type", "text/event-stream")
		item := `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}`
		if len(asked) == 1 {
			item = `{"type":"custom_tool_call","call_id":"call_p","name":"ApplyPatch","status":"completed",` +
				`"input":"*** Begin Patch\n*** Add File: new\n+\"<x>\"\n*** End Patch\n"}`
		}
		_, err = fmt.Fprintf(w, "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":%s}\n\n"+
			"data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[]}}\n\n", item)
		if err != nil {
			t.Error(err)
		}
	}))
	defer provider.Close()
	dir := shortDir(t)
	serve := func(freeform bool) *harness {
		return startIn(t, dir, func(c *config.Config, p *agentd.Parts) {
			c.Models.OpenAIBaseURL, c.Models.OpenAIKey, c.Models.Freeform = provider.URL, "test", freeform
			remote, err := openai.New(openai.Options{Options: endpoint.Options{BaseURL: provider.URL, APIKey: "test"},
				Freeform: freeform})
			expect.NoError(t, err)
			t.Cleanup(func() { _ = remote.Close() })
			alone(t, "openai", "gpt-5", remote)(c, p)
		})
	}
	h := serve(true)
	first := h.post(`{"model":"openai/gpt-5","input":"go"}`).response(t)
	if data, err := os.ReadFile(filepath.Join(h.cfg.Dirs.Workspace, "new")); err != nil || string(data) != "\"<x>\"\n" {
		t.Errorf("the file has %q, %v", data, err)
	}
	stored, err := os.ReadFile(filepath.Join(h.cfg.Dirs.State, "responses", first.ID+".ndjson"))
	if err != nil || !strings.Contains(string(stored), `"arguments":"{\"patch\":\"*** Begin Patch\\n`) {
		t.Errorf("what is stored: %v\n%s", err, stored)
	}
	expect.NoError(t, h.stop())
	h = serve(false)
	h.post(fmt.Sprintf(`{"model":"openai/gpt-5","input":"and now?","previous_response_id":%q}`, first.ID)).response(t)
	if len(asked) != 3 {
		t.Fatalf("asked %d times", len(asked))
	}
	for i, want := range []string{
		`{"name":"ApplyPatch","description":"Changes files of the working tree. Write the patch itself`,
		`{"call_id":"call_p","input":"*** Begin Patch\n*** Add File: new\n+\"<x>\"\n*** End Patch\n",` +
			`"name":"ApplyPatch","type":"custom_tool_call"},{"call_id":"call_p","output":"patch applied`,
		`{"arguments":"{\"patch\":\"*** Begin Patch\\n*** Add File: new\\n+`,
	} {
		if !strings.Contains(asked[i], want) {
			t.Errorf("request %d has no %s:\n%s", i, want, asked[i])
		}
	}
	if !strings.Contains(asked[0], `"format":{"definition":"start: begin file+ end\n`) ||
		strings.Contains(asked[2], `"custom`) {
		t.Error("the tools have another form than was asked for")
	}
}
