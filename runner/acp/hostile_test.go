package acp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"holon/responses/client"
	"holon/runner/acp"
	"holon/test/expect"
)

// answers serves an input without a daemon, and returns the lines of the output.
func answers(t *testing.T, in io.Reader) []string {
	t.Helper()
	var out bytes.Buffer
	c := client.Unix(filepath.Join(t.TempDir(), "none"))
	defer c.Close()
	err := acp.Serve(t.Context(), in, &out, acp.Options{Client: c, Model: "scripted/demo", Mode: acp.Ask,
		Log: slog.New(slog.DiscardHandler)})
	expect.NoError(t, err)
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// Whatever an editor writes is answered with an error, and what comes after it as well.
func TestHostileLines(t *testing.T) {
	request := func(method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	}
	for name, tt := range map[string]struct {
		line string
		code int // 0: no answer
	}{
		"no JSON":                {"hello", -32700},
		"half an object":         {`{"jsonrpc":`, -32700},
		"bytes":                  {"\x00\xff\xfe", -32700},
		"very deep":              {strings.Repeat("[", 1<<20), -32700},
		"deep parameters":        {request("session/new", strings.Repeat("[", 5000)+strings.Repeat("]", 5000)), -32602},
		"a batch":                {"[" + request("initialize", "{}") + "]", -32600},
		"a number":               {"7", -32600},
		"another version":        {`{"jsonrpc":"1.0","id":1,"method":"initialize"}`, -32600},
		"no version":             {`{"id":1,"method":"initialize"}`, -32600},
		"an id that is null":     {`{"jsonrpc":"2.0","id":null,"method":"initialize"}`, -32600},
		"an id that is a list":   {`{"jsonrpc":"2.0","id":[1],"method":"initialize"}`, -32600},
		"a very long id":         {`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1<<20) + `","method":"a"}`, -32600},
		"neither method nor id":  {`{"jsonrpc":"2.0"}`, -32600},
		"no method":              {`{"jsonrpc":"2.0","id":1}`, -32600},
		"a method of no kind":    {`{"jsonrpc":"2.0","id":1,"method":{}}`, -32600},
		"too long":               {`"` + strings.Repeat("x", 65<<20) + `"`, -32600},
		"an unknown method":      {request("fs/read_text_file", "{}"), -32601},
		"an answer to nothing":   {`{"jsonrpc":"2.0","id":1,"result":{}}`, 0},
		"an error about nothing": {`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}`, 0},
		"a notification":         {`{"jsonrpc":"2.0","method":"session/prompt","params":{}}`, 0},
		"a cancellation":         {`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"x"}}`, 0},
		"no parameters":          {`{"jsonrpc":"2.0","id":1,"method":"session/new"}`, -32602},
		"parameters of no kind":  {request("session/new", "[]"), -32602},
		"a relative directory":   {request("session/new", `{"cwd":"src","mcpServers":[]}`), -32602},
		"an id that is a path":   {request("session/load", `{"cwd":"/","sessionId":"../../control"}`), -32602},
		"an unknown session":     {request("session/prompt", `{"sessionId":"x","prompt":[]}`), -32002},
		"a mode of no session":   {request("session/set_mode", `{"sessionId":"x","modeId":"ask"}`), -32002},
		"no daemon":              {request("session/load", `{"cwd":"/","sessionId":"x"}`), -32603},
	} {
		t.Run(name, func(t *testing.T) {
			lines := answers(t, strings.NewReader("\n"+tt.line+"\n"+
				`{"jsonrpc":"2.0","id":"last","method":"initialize","params":{}}`+"\n"+`{"half":`))
			want := 2
			if tt.code == 0 {
				want = 1
			}
			expect.Equal(t, "the lines", len(lines), want)
			codes := map[int]bool{}
			for _, line := range lines {
				var m struct {
					Error *struct{ Code int }
				}
				expect.NoError(t, json.Unmarshal([]byte(line), &m))
				if m.Error != nil {
					codes[m.Error.Code] = true
				}
			}
			if tt.code != 0 && !codes[tt.code] {
				t.Errorf("got %.500q, want the code %d", lines, tt.code)
			}
		})
	}
}

// Parts of prompts and modes that do not exist are refused with their place.
func TestHostileParameters(t *testing.T) {
	in, editor := io.Pipe()
	out, agent := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- acp.Serve(t.Context(), in, agent, acp.Options{Client: client.Unix("/none"), Mode: acp.Ask,
			Log: slog.New(slog.DiscardHandler)})
	}()
	lines := bufio.NewScanner(out)
	ask := func(method, params string) (answer struct {
		Result struct{ SessionID string }
		Error  struct {
			Code    int
			Message string
		}
	}) {
		_, err := fmt.Fprintf(editor, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`+"\n", method, params)
		expect.NoError(t, err)
		lines.Scan()
		expect.NoError(t, json.Unmarshal(lines.Bytes(), &answer))
		return answer
	}
	id := ask("session/new", `{"cwd":"/tmp","mcpServers":[{"name":"x","command":"sh"}]}`).Result.SessionID
	for params, word := range map[string]string{
		`"prompt":[]`: "empty",
		`"prompt":[{"type":"text","text":"a"},{"type":"audio","data":"x"}]`: "prompt[1]",
		`"prompt":[{"type":"image","data":"x","mimeType":"text/html"}]`:     "prompt[0]",
		`"prompt":[{"type":"resource"}]`:                                    "prompt[0]",
		`"prompt":[{"type":"resource","resource":{"uri":"x"}}]`:             "prompt[0]",
		`"prompt":[{"type":"resource_link"}]`:                               "prompt[0]",
	} {
		got := ask("session/prompt", fmt.Sprintf(`{"sessionId":%q,%s}`, id, params))
		expect.Equal(t, params, got.Error.Code, -32602)
		expect.Contains(t, params, got.Error.Message, word)
	}
	expect.Equal(t, "a mode", ask("session/set_mode", fmt.Sprintf(`{"sessionId":%q,"modeId":"x"}`, id)).Error.Code, -32602)
	expect.Equal(t, "no daemon", ask("session/prompt",
		fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":"a"}]}`, id)).Error.Code, -32603)
	expect.NoError(t, editor.Close())
	expect.NoError(t, <-done)
}

// FuzzServe holds that every line of output is a message, whatever the input is.
func FuzzServe(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a","method":"session/prompt","params":{"sessionId":"x","prompt":[{}]}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, got := range answers(t, bytes.NewReader(append(line, '\n'))) {
			if got != "" && !json.Valid([]byte(got)) {
				t.Errorf("the output has %q", got)
			}
		}
	})
}
