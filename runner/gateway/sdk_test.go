package gateway_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/test/expect"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// The provider's own client works through the socket without knowing a key.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	answer, err := os.ReadFile(filepath.Join("..", "..", "test", "streams", "responses", "text.ndjson"))
	expect.NoError(t, err)
	var want strings.Builder
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for line := range strings.Lines(string(answer)) {
			io.WriteString(w, "data: "+strings.TrimSpace(line)+"\n\n")
		}
	})
	g := serve(t, openAI(up.URL))
	client := responses.NewResponseService(option.WithHTTPClient(g.client), option.WithBaseURL("http://model/openai"),
		option.WithAPIKey("none"), option.WithMaxRetries(0))
	stream := client.NewStreaming(t.Context(), responses.ResponseNewParams{Model: "m"})
	defer stream.Close()
	completed := ""
	for stream.Next() {
		switch event := stream.Current(); event.Type {
		case "response.output_text.delta":
			want.WriteString(event.Delta)
		case "response.completed":
			completed = event.Response.OutputText()
		}
	}
	expect.NoError(t, stream.Err())
	if completed == "" || completed != want.String() {
		t.Errorf("text = %q, deltas %q", completed, want.String())
	}
	if seen := up.only(t); seen.header.Get("Authorization") != "Bearer "+sentinel || len(seen.header) > 7 {
		t.Errorf("the provider saw %v", seen.header)
	}
}
