package hosttools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/internal/redact"
	"holon/responses"
	"holon/runner/hosttools"
	"holon/test/expect"
)

const anything = `{"type":"object"}`

// echo is a tool that says what it was called with, or fails as it is told.
func echo() hosttools.Tool {
	return hosttools.Tool{Name: "Echo", Description: "d", Schema: json.RawMessage(anything),
		Call: func(_ context.Context, c hosttools.Call) (hosttools.Result, error) {
			switch {
			case strings.Contains(string(c.Arguments), "refuse"):
				return hosttools.Result{}, &hosttools.ToolError{Kind: "no_such", Message: "there is none",
					Hint:  "make one",
					Field: "x", Retryable: true, Details: map[string]any{"n": 1}}
			case strings.Contains(string(c.Arguments), "break"):
				return hosttools.Result{}, errors.New("/home/secret/path is gone")
			case strings.Contains(string(c.Arguments), "flood"):
				return hosttools.Result{Text: strings.Repeat("x", 2<<20)}, nil
			case strings.Contains(string(c.Arguments), "direct"):
				return hosttools.Result{Directive: responses.Directive{Reminder: new("hunter2-hunter2"),
					Hidden: []string{"hunter2-hunter2"}, WorkingDirectory: "/holon/workspaces/api"}}, nil
			}
			return hosttools.Result{Text: fmt.Sprintf("%s %s hunter2-hunter2", c.ID, c.Arguments),
				Structured: json.RawMessage(`{"pass":"hunter2-hunter2"}`)}, nil
		}}
}

func TestTools(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	expect.NoError(t, r.server.Close())
	r.options.Secrets = new(redact.Set)
	r.options.Secrets.Add("PASSWORD", "hunter2-hunter2")
	r.options.Tools = []hosttools.Tool{echo()}
	r.serve()
	s := r.dial()
	list, err := s.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 2 {
		t.Fatalf("tools %+v, %v", list, err)
	}
	for name, c := range map[string]struct {
		id        any
		arguments string
		text      string
		structure string // "" for any
	}{
		"a call": {"turn_1/call_1", `{"a":1}`, `turn_1/call_1 {"a":1} [redacted]`, `{"pass":"[redacted]"}`},
		"no id": {nil, `{}`, "the call has no id",
			`{"ok":false,"tool_name":"Echo","kind":"invalid_tool_input","message":"the call has no id of 1 to 256 ` +
				`bytes","hint":"call the tool through agentd","field":"_meta.holon/call_id","retryable":false}`},
		"a long id":      {strings.Repeat("x", 257), `{}`, "the call has no id", ""},
		"an id that's 7": {7, `{}`, "the call has no id", ""},
		"a refusal": {"c", `{"refuse":1}`, "there is none; make one",
			`{"ok":false,"tool_name":"Echo","kind":"no_such","message":"there is none","hint":"make one","field":"x",` +
				`"retryable":true,"details":{"n":1}}`},
		"a failure": {"c", `{"break":1}`, "the host could not do that",
			`{"ok":false,"tool_name":"Echo","kind":"host_unavailable","message":"the host could not do that",` +
				`"hint":"go on without it, and say so in your answer","retryable":false}`},
		"too much": {"c", `{"flood":1}`, "too large", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := &mcp.CallToolParams{Name: "Echo", Arguments: json.RawMessage(c.arguments), Meta: meta(c.id)}
			res, err := s.CallTool(t.Context(), p)
			expect.NoError(t, err)
			if text := res.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, c.text) || len(text) > 1000 {
				t.Errorf("it says %.300q", text)
			}
			var got, want any
			data, err := json.Marshal(res.StructuredContent)
			if err == nil {
				err = json.Unmarshal(data, &got)
			}
			if c.structure != "" {
				err = errors.Join(err, json.Unmarshal([]byte(c.structure), &want))
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("structured %s, want %s", data, c.structure)
				}
			}
			if name == "a call" && res.Meta["holon/summary"] != `turn_1/call_1 {"a":1} [redacted]` {
				t.Errorf("the summary is %v, want the line without its secret", res.Meta["holon/summary"])
			}
			if err != nil || res.IsError == (name == "a call") {
				t.Errorf("error %t, %v", res.IsError, err)
			}
		})
	}
}

// A call that takes longer than its tool may is ended, and the model gets why and what to do.
func TestCallTimesOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	expect.NoError(t, r.server.Close())
	r.options.Tools = []hosttools.Tool{{Name: "Slow", Schema: json.RawMessage(anything), Timeout: time.Millisecond,
		Call: func(ctx context.Context, _ hosttools.Call) (hosttools.Result, error) {
			<-ctx.Done()
			return hosttools.Result{}, &hosttools.ToolError{Kind: "workspace_failed", Message: "cut off"}
		}}}
	r.serve()
	got, err := r.dial().CallTool(t.Context(), &mcp.CallToolParams{Name: "Slow", Meta: meta("c")})
	expect.NoError(t, err)
	var failed hosttools.ToolError
	text, _ := json.Marshal(got.StructuredContent)
	expect.NoError(t, json.Unmarshal(text, &failed))
	if !got.IsError || failed.Kind != "timed_out" || !failed.Retryable || failed.Hint == "" ||
		!strings.Contains(failed.Message, "1ms") {
		t.Errorf("answered %+v", failed)
	}
}

// A directive has no secret but those that it is to hide, and names the directory as the program sees it.
func TestDirective(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	expect.NoError(t, r.server.Close())
	r.options.Secrets = new(redact.Set)
	r.options.Secrets.Add("PASSWORD", "hunter2-hunter2")
	r.options.Tools = []hosttools.Tool{echo()}
	r.options.Inside = func(path string) string { return "/inside" + path }
	r.serve()
	res, err := r.dial().CallTool(t.Context(), &mcp.CallToolParams{Name: "Echo", Arguments: json.RawMessage(`{"direct":1}`),
		Meta: meta("c")})
	expect.NoError(t, err)
	got, err := json.Marshal(res.Meta["holon/directive"])
	expect.NoError(t, err)
	expect.Equal(t, "directive", string(got), `{"hidden":["hunter2-hunter2"],"reminder":"[redacted]",`+
		`"working_directory":"/inside/holon/workspaces/api"}`)
}

func TestToolsThatCannotBeOffered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, change := range map[string]func(*hosttools.Tool){
		"a bad name":     func(t *hosttools.Tool) { t.Name = "a.b" },
		"no name":        func(t *hosttools.Tool) { t.Name = "" },
		"the name of us": func(t *hosttools.Tool) { t.Name = "turn_note" },
		"no schema":      func(t *hosttools.Tool) { t.Schema = nil },
		"another schema": func(t *hosttools.Tool) { t.Schema = json.RawMessage(`{"type":"array"}`) },
		"nothing to do":  func(t *hosttools.Tool) { t.Call = nil },
	} {
		tool := echo()
		change(&tool)
		o := r.options
		o.Socket += ".2"
		o.Tools = []hosttools.Tool{tool}
		if s, err := hosttools.Serve(t.Context(), o); err == nil {
			t.Errorf("%s: it is offered (%v)", name, s.Close())
		}
	}
	o := r.options
	o.Tools = []hosttools.Tool{echo(), echo()}
	if _, err := hosttools.Serve(t.Context(), o); err == nil {
		t.Error("two of one name are offered")
	}
}

// Without a file for notes there is nothing to note.
func TestNoNotes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.options.Notes, r.options.Socket = "", r.options.Socket+"2"
	expect.NoError(t, r.server.Close())
	r.serve()
	list, err := r.dial().ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 0 || len(r.server.Notes()) != 0 {
		t.Errorf("tools %v, notes %v, %v", list, r.server.Notes(), err)
	}
}
