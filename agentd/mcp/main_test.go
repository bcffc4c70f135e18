package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"holon/agentd/mcp"
	"holon/agentd/process"
	"holon/agentd/tools"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// asServer is the variable that makes this binary an MCP server of a kind.
const asServer = "MCP_TEST_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(asServer); kind != "" {
		beServer(kind)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait. No test takes that long unless it fails.
const patience = time.Minute

// one returns a description of a tool that takes anything.
func one(name, description string) *sdk.Tool {
	return &sdk.Tool{Name: name, Description: description,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}
}

func text(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// inflated is a text that an inflating writer makes larger than a message may be.
// Encoding that much takes the SDK seconds.
const inflated = "INFLATED"

type inflating struct{ io.WriteCloser }

func (w inflating) Write(p []byte) (int, error) {
	if _, err := w.WriteCloser.Write(inflate(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func inflate(p []byte) []byte {
	if !bytes.Contains(p, []byte(inflated)) {
		return p
	}
	return bytes.ReplaceAll(p, []byte(inflated), bytes.Repeat([]byte("x"), 17<<20))
}

// beServer is a server as others write them, or one that behaves badly.
func beServer(kind string) {
	switch kind {
	case "old-exit", "old-silent":
		beOld(kind)
		return
	case "silent": // reads and never answers
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "deaf": // never reads either
		time.Sleep(time.Hour)
	case "garbage":
		fmt.Println(`{"jsonrpc":"2.0","id":"\u00`)
		time.Sleep(time.Hour)
	case "dies":
		fmt.Fprintln(os.Stderr, "no database\x1b[31m here")
		os.Exit(7)
	case "chatty": // prints before it begins
		fmt.Println("Welcome to the server!\n\nlistening")
	}
	s := sdk.NewServer(&sdk.Implementation{Name: kind, Version: "1"}, nil)
	hold := make(chan struct{})
	add := func(name string, do func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error)) {
		s.AddTool(one(name, "It is "+name+"."), do)
	}
	add("echo", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(string(r.Params.Arguments)), nil
	})
	add("meta", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if token := r.Params.Meta["holon/turn_token"]; token != nil {
			return text(fmt.Sprint("was told the token ", token)), nil
		}
		return text(fmt.Sprint(r.Params.Meta["holon/call_id"])), nil
	})
	add("env", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(strings.Join(os.Environ(), "\n")), nil
	})
	add("hang", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "hanging")
		select {
		case <-ctx.Done():
			fmt.Fprintln(os.Stderr, "told to stop")
		case <-hold:
		}
		return nil, errors.New("given up")
	})
	add("die", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "dying")
		os.Exit(3)
		return nil, nil
	})
	add("fail", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{IsError: true,
			Content:           []sdk.Content{&sdk.TextContent{Text: "the \x1b[31mtable is locked"}},
			StructuredContent: map[string]any{"code": 7}}, nil
	})
	add("refuse", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, errors.New("not today")
	})
	add("large", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text("begin " + strings.Repeat("line of text\n", 100_000) + "end"), nil
	})
	add("huge", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(inflated), nil
	})
	add("mixed", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		data, _ := base64.StdEncoding.DecodeString(pixel)
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "see"}, &sdk.ImageContent{MIMEType: "image/jpeg", Data: data},
			&sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("RIFF")},
			&sdk.ResourceLink{URI: "file:///a", Name: "a"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///b", Text: "content of b"}},
		}}, nil
	})
	add("structured", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{}, StructuredContent: map[string]any{"rows": []int{1, 2}}},
			nil
	})
	add("grow", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		s.RemoveTools("echo")
		add("later", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return text("now"), nil
		})
		return text("grown"), nil
	})
	add("ask", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		_, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "who?"})
		return text(fmt.Sprintf("elicitation: %v", err)), nil
	})
	add("flood", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		out := bufio.NewWriter(os.Stdout) // the SDK writes whole messages, so the two do not mix
		for range 300 {
			fmt.Fprintln(out, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		}
		_ = out.Flush()
		return text("flooded"), nil
	})
	switch kind {
	case "many":
		for i := range 400 {
			add(fmt.Sprintf("tool-%d", i), nil2)
		}
	case "strange":
		odd := func(name string, schema any) {
			s.AddTool(&sdk.Tool{Name: name, Description: name, InputSchema: schema}, nil2)
		}
		odd("a.b", map[string]any{"type": "object"})
		odd("a_b", map[string]any{"type": "object"})
		odd(strings.Repeat("long", 20),
			map[string]any{"type": "object", "additionalProperties": map[string]any{"$ref": "#"}})
		deep := map[string]any{"type": "object"}
		for range 50 {
			deep = map[string]any{"type": "object", "properties": map[string]any{"x": deep}}
		}
		odd("deep", deep)
		odd("typo", map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "zzz"}}})
		odd("big", map[string]any{"type": "object", "description": strings.Repeat("x", 40<<10)})
		s.AddTool(&sdk.Tool{Name: "hidden", Description: "harm\u202eless\u200b\x07" + strings.Repeat("y", 8<<10),
			InputSchema: map[string]any{"type": "object"}}, nil2)
	}
	transport := &sdk.IOTransport{Reader: os.Stdin, Writer: inflating{os.Stdout}}
	if err := s.Run(context.Background(), transport); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func nil2(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("ok"), nil }

// rig is a manager with what it needs.
type rig struct {
	t       *testing.T
	m       *mcp.Manager
	dir     string
	logs    string
	offered *tools.Registry
	offer   *mcp.Offer
}

// program is this binary as a server of a kind.
func program(t *testing.T, kind string) mcp.Server {
	t.Helper()
	self, err := os.Executable()
	expect.NoError(t, err)
	// Without a directory for its counts, a binary that counts coverage warns about it in the log of the server.
	return mcp.Server{Command: self, Env: map[string]string{asServer: kind, "GOCOVERDIR": t.TempDir()}}
}

func open(t *testing.T, change func(*mcp.Options)) *rig {
	t.Helper()
	supervisor := process.New(process.Options{})
	r := &rig{t: t, dir: t.TempDir(), logs: filepath.Join(t.TempDir(), "mcp")}
	o := mcp.Options{
		Starter: supervisor, Environ: process.Environ(append(os.Environ(), "SOME_API_KEY=sk-secret")), Dir: r.dir,
		LogDir: r.logs, Version: "test",
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Config: mcp.Config{Servers: map[string]mcp.Server{}},
	}
	change(&o)
	r.m = mcp.Open(o)
	t.Cleanup(func() {
		r.offer.Release()
		if err := errors.Join(r.m.Close(), supervisor.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// openOne opens a manager with one server of a kind, named s.
func openOne(t *testing.T, kind string) *rig {
	t.Helper()
	return open(t, func(o *mcp.Options) { o.Config.Servers["s"] = program(t, kind) })
}

// turn begins a turn: it takes what servers offer.
func (r *rig) turn(requested ...responses.MCPTool) *mcp.Offer {
	r.t.Helper()
	offer, err := r.m.Offer(r.t.Context(), requested)
	expect.NoError(r.t, err)
	r.offer.Release()
	r.offer = offer
	none, err := tools.NewRegistry()
	expect.NoError(r.t, err)
	if r.offered, err = none.With(offer.Tools...); err != nil {
		r.t.Fatal(err)
	}
	return offer
}

func (r *rig) names() string {
	var names []string
	for _, def := range r.offered.Definitions() {
		names = append(names, def.Name)
	}
	return strings.Join(names, " ")
}

// call calls a tool of the present turn.
func (r *rig) call(ctx context.Context, name, arguments string, change ...func(*tools.Env)) tools.Outcome {
	r.t.Helper()
	logDir := filepath.Join(r.dir, "tools")
	expect.NoError(r.t, os.MkdirAll(logDir, 0o700))
	env := tools.Env{TurnID: "turn_1", WorkDir: r.dir, LogDir: logDir}
	for _, c := range change {
		c(&env)
	}
	o := r.offered.Run(ctx, env, tools.Call{ID: "call_1", Name: name, Arguments: json.RawMessage(arguments)})
	if o.Fault != nil {
		r.t.Errorf("%s: fault %v", name, o.Fault)
	}
	return o
}

// kind is the kind of error of an outcome, "" for none.
func kind(o tools.Outcome) string {
	if o.Canonical.Error == nil {
		return ""
	}
	return o.Canonical.Error.Kind
}

// await waits until cond holds.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (r *rig) state() turns.MCPServer {
	r.t.Helper()
	list := r.m.Health()
	if len(list) != 1 {
		r.t.Fatalf("health %+v", list)
	}
	return list[0]
}
