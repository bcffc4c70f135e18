package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"holon/agentd/mcp"
	"holon/test/expect"
)

// oddAnswer answers a request as servers from before 2026 do, and oddly where the SDK decodes strictly. It has no
// answer to a request that it does not know.
func oddAnswer(request []byte) string {
	var r struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Arguments struct {
				Answer *string `json:"answer"` // the members of the answer
			} `json:"arguments"`
		} `json:"params"`
	}
	if json.Unmarshal(request, &r) != nil {
		return ""
	}
	if answer := r.Params.Arguments.Answer; answer != nil {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s%s}`, r.ID, *answer)
	}
	result := map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},` +
			`"serverInfo":{"name":"odd","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"plain","inputSchema":{"type":"object","properties":{"a":null},"required":null}},` +
			`{"name":"none","inputSchema":null},{"name":"php","inputSchema":{"properties":[]}},{"name":"bare"},` +
			`{"name":"either","inputSchema":{"type":["object","null"]}},` +
			`{"name":"noted","title":5,"annotations":"x","inputSchema":{"type":"object"}}],"nextCursor":null}`,
		"tools/call": `{"content":[{"type":"chart","points":[1]},{"type":"text","text":"known","annotations":7},"loose",` +
			`{"type":"image","mimeType":"image/png","data":"no base64!"}],"isError":null,"_meta":3}`,
	}[r.Method]
	if result == "" {
		return ""
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, result)
}

// beOld is a program that speaks as oddAnswer and logs JSON on its standard output. It ends, or is silent, if it is
// asked something before initialize.
func beOld(kind string) {
	initialized := false
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer := oddAnswer(lines.Bytes())
		initialized = initialized || strings.Contains(lines.Text(), `"initialize"`)
		if !initialized && kind == "old-exit" {
			fmt.Fprintln(os.Stderr, "expect initialize request")
			os.Exit(1)
		}
		if initialized && answer != "" {
			fmt.Printf("%s\n%s\n%s\n{broken\n", `{"level":"info","message":"asked","id":1}`, answer, `[]`)
		}
	}
}

func TestOldServers(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		switch answer := oddAnswer(body); {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case answer == "" && strings.Contains(string(body), `"id"`):
			w.WriteHeader(http.StatusBadRequest)
		case answer == "":
			w.WriteHeader(http.StatusAccepted)
		case strings.Contains(string(body), "tools/call"):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", answer)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, answer)
		}
	}))
	t.Cleanup(web.Close) // after the servers' tests, which run in parallel
	servers := map[string]mcp.Server{"exit": program(t, "old-exit"), "silent": program(t, "old-silent"),
		"web": {URL: web.URL}}
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, func(o *mcp.Options) { o.Config.Servers["s"] = server })
			offer := r.turn()
			expect.Equal(t, "notes", len(offer.Notes), 0)
			expect.Equal(t, "tools", r.names(),
				"mcp__s__bare mcp__s__either mcp__s__none mcp__s__noted mcp__s__php mcp__s__plain")
			for _, def := range r.offered.Definitions() {
				if def.Name == "mcp__s__plain" {
					expect.Equal(t, "schema", string(def.Parameters), `{"properties":{"a":{}},"type":"object"}`)
				}
			}
			for _, answer := range []string{`,"result":"a string"`, `,"result":7`, `,"result":null`, `,"result":[]`, ``,
				`,"error":"a string"`, `,"error":null`} {
				o := r.call(t.Context(), "mcp__s__plain", fmt.Sprintf(`{"answer":%q}`, answer))
				expect.Equal(t, "error of "+answer, kind(o), "mcp_result_unreadable")
			}
			for range 2 { // the connection stays
				o := r.call(t.Context(), "mcp__s__plain", `{}`)
				expect.Equal(t, "error", kind(o), "")
				expect.Equal(t, "text", o.Rendered, `[content of type "chart" that cannot be read: {"type":"chart","points":[1]}]`+
					"\nknown\nloose\n"+`[content of type "image" that cannot be read: {"type":"image","mimeType":"image/png",`+
					`"data":"no base64!"}]`)
			}
		})
	}
}
