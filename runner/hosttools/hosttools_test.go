package hosttools_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"holon/runner/hosttools"
	"holon/runner/socket"
	"holon/state"
	"holon/test/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a run's directory with a server for it.
type rig struct {
	t       *testing.T
	options hosttools.Options
	server  *hosttools.Server
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "ht") // t.TempDir's paths are too long for a socket
	expect.NoError(t, err)
	r := &rig{t: t, options: hosttools.Options{Socket: filepath.Join(dir, "ipc", "host.sock"),
		Notes: filepath.Join(dir, "notes.ndjson"), Log: slog.New(slog.NewTextHandler(t.Output(), nil))}}
	t.Cleanup(func() {
		if err := errors.Join(r.server.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	r.serve()
	return r
}

func (r *rig) serve() {
	r.t.Helper()
	var err error
	if r.server, err = hosttools.Serve(r.t.Context(), r.options); err != nil {
		r.t.Fatal(err)
	}
	r.server.Grant(turnID, sha256.Sum256([]byte(token)))
}

// The turn of every call, unless a test says another.
const turnID, token = "turn_1", "hmt_0123456789"

// meta is what surrounds a call of the turn.
func meta(callID any) mcp.Meta {
	if id, ok := callID.(string); ok {
		callID = turnID + "/" + strings.TrimPrefix(id, turnID+"/")
	}
	return mcp.Meta{"holon/turn_token": token, "holon/call_id": callID}
}

// dial is a client of the official SDK, with nothing of ours.
func (r *rig) dial() *mcp.ClientSession {
	r.t.Helper()
	conn, err := net.Dial("unix", r.options.Socket)
	expect.NoError(r.t, err)
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := c.Connect(r.t.Context(), &mcp.IOTransport{Reader: conn, Writer: conn}, nil)
	expect.NoError(r.t, err)
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

// note calls turn_note and returns the text of the answer and its code, "" for
// success.
func note(t *testing.T, s *mcp.ClientSession, callID any, arguments string) (text, code string) {
	t.Helper()
	p := &mcp.CallToolParams{Name: "turn_note", Arguments: json.RawMessage(arguments), Meta: meta(callID)}
	res, err := s.CallTool(t.Context(), p)
	if err != nil {
		t.Fatalf("%s: %v", arguments, err)
	}
	var structured struct {
		Kind string
	}
	data, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(data, &structured)
	}
	if err != nil || (structured.Kind != "") != res.IsError {
		t.Errorf("%s: structured %s, error %v (%v)", arguments, data, res.IsError, err)
	}
	return res.Content[0].(*mcp.TextContent).Text, structured.Kind
}

func texts(notes []state.Note) string {
	var list []string
	for _, n := range notes {
		list = append(list, n.Kind+":"+n.Text)
	}
	return strings.Join(list, "|")
}

func TestNotes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.dial()
	list, err := s.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "turn_note" {
		t.Fatalf("tools %+v, %v", list, err)
	}
	info, err := os.Lstat(r.options.Socket)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket has mode %v, %v", info.Mode(), err)
	}
	for _, tc := range []struct {
		id              any
		arguments, code string
	}{
		{"c1", `{"text":"first"}`, ""},
		{"c1", `{"text":"first"}`, ""}, // again
		{"c1", `{"text":"second"}`, "call_conflict"},
		{"c1", `{"text":"first","kind":"todo"}`, "call_conflict"},
		{"c4", `{"text":"third","kind":"risk"}`, ""},
		{nil, `{"text":"no id","kind":"risk"}`, "invalid_tool_input"},
		{"c2", `{"text":"\u001b[31mred\u0000\u202e\nline two\u200b "}`, ""},
		{7, `{"text":"x"}`, "invalid_tool_input"},
		{strings.Repeat("x", 300), `{"text":"x"}`, "invalid_tool_input"},
		{"c3", `{"text":""}`, "invalid_tool_input"},
		{"c3", `{"text":"\u001b"}`, "invalid_tool_input"},
		{"c3", `{"text":"x","kind":"Not one"}`, "invalid_tool_input"},
		{"c3", `{"text":"x","more":1}`, "invalid_tool_input"},
		{"c3", `{"text":5}`, "invalid_tool_input"},
		{"c3", `[]`, "invalid_tool_input"},
		{"c3", `{"text":"` + strings.Repeat("x", 5000) + `"}`, "invalid_tool_input"},
	} {
		if text, code := note(t, s, tc.id, tc.arguments); code != tc.code {
			t.Errorf("%v %.60s: code %q, %s", tc.id, tc.arguments, code, text)
		}
	}
	const want = "note:first|risk:third|note:red\nline two"
	expect.Equal(t, "notes", texts(r.server.Notes()), want)
	expect.NoError(t, r.server.Close())
	kept, err := hosttools.ReadNotes(r.options.Notes)
	if err != nil || texts(kept) != want {
		t.Errorf("kept %q, %v", texts(kept), err)
	}
	if _, err := os.Lstat(r.options.Socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// A call whose answer was lost with the host is answered as then.
func TestRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before, _ := note(t, r.dial(), "turn_1/call_1", `{"text":"once"}`)
	expect.NoError(t, r.server.Close())
	f, err := os.OpenFile(r.options.Notes, os.O_WRONLY|os.O_APPEND, 0)
	expect.NoError(t, err)
	if _, err := f.WriteString(`{"call_id":"turn_1/call_2","te`); err != nil { // what a crash leaves
		t.Fatal(err)
	}
	f.Close()
	r.serve()
	s := r.dial()
	if again, code := note(t, s, "turn_1/call_1", `{"text":"once"}`); again != before || code != "" {
		t.Errorf("answered %q, then %q (%s)", before, again, code)
	}
	if _, code := note(t, s, "turn_1/call_1", `{"text":"twice"}`); code != "call_conflict" {
		t.Errorf("other arguments: %q", code)
	}
	note(t, s, "turn_1/call_2", `{"text":"after"}`)
	expect.Equal(t, "notes", texts(r.server.Notes()), "note:once|note:after")
}

func TestLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.dial()
	var group sync.WaitGroup
	for i := range 250 { // one connection, at once
		group.Go(func() {
			_, _ = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "turn_note",
				Arguments: map[string]any{"text": fmt.Sprint(i)}, Meta: meta(fmt.Sprint(i))})
		})
	}
	group.Wait()
	expect.Equal(t, "notes", len(r.server.Notes()), 200)
	if _, code := note(t, s, "more", `{"text":"one more"}`); code != "limit_reached" {
		t.Errorf("one more: %q", code)
	}
}

// Bytes that are not the protocol end their connection and nothing else.
func TestHostileConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, sent := range []string{
		"\x00\xff\n", "{\n", strings.Repeat("[", 1<<20) + "\n",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"turn_note","arguments":{"text":"` +
			strings.Repeat("x", 1<<20) + "\"}}}\n",
		strings.Repeat("noise\n", 1000), `{"jsonrpc":"2.0","id":1,"method":"tools/call"}` + "\n" +
			`{"jsonrpc":"2.0","id":1,"method":"tools/call"}` + "\n",
		strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/progress"}`+"\n", 500),
	} {
		conn, err := net.Dial("unix", r.options.Socket)
		expect.NoError(t, err)
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(conn, sent) // it may be cut off
		_ = conn.(*net.UnixConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
	}
	if _, code := note(t, r.dial(), "c", `{"text":"well"}`); code != "" || texts(r.server.Notes()) != "note:well" {
		t.Errorf("code %q, notes %q", code, texts(r.server.Notes()))
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := hosttools.Serve(t.Context(),
		hosttools.Options{Socket: r.options.Socket, Notes: r.options.Notes + ".2", Log: r.options.Log})
	if e, ok := errors.AsType[*state.Error](err); !ok || e.Code != socket.CodeUnusable {
		t.Errorf("a second server: %v", err)
	}
	link := filepath.Join(filepath.Dir(r.options.Notes), "link")
	expect.NoError(t, os.Symlink("/etc/passwd", link))
	if _, err := hosttools.Serve(t.Context(),
		hosttools.Options{Socket: r.options.Socket + ".2", Notes: link, Log: r.options.Log}); err == nil {
		t.Error("notes were read through a link")
	}
	broken := filepath.Join(filepath.Dir(r.options.Notes), "broken")
	expect.NoError(t, os.WriteFile(broken, []byte("no JSON\n"), 0o600))
	if _, err := hosttools.Serve(t.Context(),
		hosttools.Options{Socket: r.options.Socket + ".2", Notes: broken, Log: r.options.Log}); err == nil {
		t.Error("a broken file was taken")
	}
}
