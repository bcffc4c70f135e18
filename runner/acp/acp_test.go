package acp_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/coder/acp-go-sdk"

	"holon/responses/client"
	"holon/runner/acp"
	"holon/test/expect"
	"holon/test/gittest"
)

// editor is the SDK's client, which keeps what it is sent.
type editor struct {
	sdk.Client // methods for files and terminals, which panic: they are not used
	*sdk.ClientSideConnection

	mu      sync.Mutex
	updates []sdk.SessionUpdate
	asked   []sdk.RequestPermissionRequest
	choose  chooser
	seen    func(sdk.SessionUpdate)
	leave   func() error
}

// chooser answers for the user.
type chooser func(context.Context, sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome

func (e *editor) SessionUpdate(_ context.Context, n sdk.SessionNotification) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updates = append(e.updates, n.Update)
	if e.seen != nil {
		e.seen(n.Update)
	}
	return nil
}

func (e *editor) RequestPermission(ctx context.Context, r sdk.RequestPermissionRequest) (
	sdk.RequestPermissionResponse, error) {
	e.mu.Lock()
	e.asked = append(e.asked, r)
	e.mu.Unlock()
	return sdk.RequestPermissionResponse{Outcome: e.choose(ctx, r)}, nil
}

// choose selects the option of a kind.
func choose(kind sdk.PermissionOptionKind) chooser {
	return func(_ context.Context, r sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome {
		i := slices.IndexFunc(r.Options, func(o sdk.PermissionOption) bool { return o.Kind == kind })
		return sdk.RequestPermissionOutcome{Selected: &sdk.RequestPermissionOutcomeSelected{OptionId: r.Options[i].OptionId}}
	}
}

// connect serves an editor.
func connect(t *testing.T, d *daemon, model string) *editor {
	t.Helper()
	in, toAgent := io.Pipe()
	fromAgent, out := io.Pipe()
	c := client.Unix(d.socket)
	done := make(chan error, 1)
	go func() {
		err := acp.Serve(context.Background(), in, out, acp.Options{Client: c, Model: model, Mode: acp.Ask, Version: "v1",
			Thoughts: true, Log: slog.New(slog.DiscardHandler)})
		_ = out.Close()
		done <- err
	}()
	e := &editor{leave: toAgent.Close}
	e.ClientSideConnection = sdk.NewClientSideConnection(e, toAgent, fromAgent)
	e.SetLogger(slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		_ = toAgent.Close()
		expect.NoError(t, <-done)
		c.Close()
	})
	got, err := e.Initialize(t.Context(), sdk.InitializeRequest{ProtocolVersion: sdk.ProtocolVersionNumber})
	expect.NoError(t, err)
	if got.ProtocolVersion != 1 || !got.AgentCapabilities.LoadSession || !got.AgentCapabilities.PromptCapabilities.Image {
		t.Errorf("initialized: %+v", got)
	}
	return e
}

func (e *editor) prompt(t *testing.T, id sdk.SessionId, text string) (sdk.PromptResponse, error) {
	t.Helper()
	e.mu.Lock()
	e.updates, e.asked = nil, nil
	e.mu.Unlock()
	return e.Prompt(t.Context(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock(text)}})
}

// story is what was shown: its kinds in order, neighbours of the same kind as one.
func (e *editor) story() string {
	var words []string
	add := func(word string) {
		if len(words) == 0 || words[len(words)-1] != word {
			words = append(words, word)
		}
	}
	for _, u := range e.updates {
		switch {
		case u.UserMessageChunk != nil:
			add("user")
		case u.AgentThoughtChunk != nil:
			add("thought")
		case u.AgentMessageChunk != nil:
			add("text")
		case u.ToolCall != nil:
			add(string(u.ToolCall.Kind) + ":" + string(u.ToolCall.Status))
		case u.ToolCallUpdate != nil:
			add(string(*u.ToolCallUpdate.Status))
		case u.CurrentModeUpdate != nil:
			add("mode:" + string(u.CurrentModeUpdate.CurrentModeId))
		}
	}
	return strings.Join(words, " ")
}

// text is what the agent wrote.
func (e *editor) text() string {
	var b strings.Builder
	for _, u := range e.updates {
		if u.AgentMessageChunk != nil {
			b.WriteString(u.AgentMessageChunk.Content.Text.Text)
		}
	}
	return b.String()
}

// An editor that is the SDK's client goes through all that a session has.
func TestConformance(t *testing.T) {
	d := startDaemon(t)
	dir := gittest.NewRepo(t, map[string]string{"greeting.txt": "hello\n"})
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			return "-"
		}
		expect.NoError(t, err)
		return string(data)
	}
	e := connect(t, d, "scripted/turns")
	s, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{}})
	expect.NoError(t, err)
	expect.Equal(t, "the mode", s.Modes.CurrentModeId, "ask")

	e.choose = func(ctx context.Context, r sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome {
		expect.Equal(t, "the file before it was allowed", read("greeting.txt"), "hello\n")
		return choose(sdk.PermissionOptionKindAllowOnce)(ctx, r)
	}
	end, err := e.prompt(t, s.SessionId, "greet the world")
	expect.NoError(t, err)
	expect.Equal(t, "the end", end.StopReason, sdk.StopReasonEndTurn)
	expect.Equal(t, "the first turn", e.story(),
		"thought text execute:in_progress completed edit:in_progress completed text edit:pending completed")
	expect.Equal(t, "the text", e.text(), "Looking.It is done.")
	expect.Equal(t, "the file", read("greeting.txt"), "hello world\n")
	expect.Equal(t, "the new file", read("new.txt"), "made by holon\n")
	shown := e.asked[0].ToolCall
	expect.Equal(t, "the places of the change", len(shown.Content), 2)
	change := shown.Content[0].Diff
	if change.Path != filepath.Join(dir, "greeting.txt") || *change.OldText != "hello\n" ||
		change.NewText != "hello world\n" {
		t.Errorf("the change is %+v", change)
	}
	if added := shown.Content[1].Diff; added.OldText != nil || added.NewText != "made by holon\n" {
		t.Errorf("the new file is %+v", added)
	}

	e.choose = choose(sdk.PermissionOptionKindRejectOnce)
	_, err = e.prompt(t, s.SessionId, "once more")
	expect.NoError(t, err)
	expect.Equal(t, "the second turn", e.story(),
		"text execute:in_progress completed edit:in_progress failed text edit:pending failed")
	expect.Equal(t, "the file that was kept back", read("greeting.txt"), "hello world\n")

	_, err = e.SetSessionMode(t.Context(), sdk.SetSessionModeRequest{SessionId: s.SessionId, ModeId: "apply"})
	expect.NoError(t, err)
	e.choose = choose(sdk.PermissionOptionKindAllowOnce)
	_, err = e.prompt(t, s.SessionId, "a Makefile")
	expect.NoError(t, err)
	expect.Equal(t, "questions about files that are executed", len(e.asked), 1)
	expect.Equal(t, "the Makefile", read("Makefile"), "all:\n")
	expect.Equal(t, "the file of before", read("greeting.txt"), "hello world\nmore\n")

	for range 2 {
		_, err = e.prompt(t, s.SessionId, "nothing")
		expect.NoError(t, err)
		expect.Equal(t, "a turn without a change", e.story(), "text")
		expect.Equal(t, "its text", e.text(), "Nothing to do.")
	}

	again := connect(t, d, "scripted/turns")
	_, err = again.LoadSession(t.Context(),
		sdk.LoadSessionRequest{SessionId: s.SessionId, Cwd: dir, McpServers: []sdk.McpServer{}})
	expect.NoError(t, err)
	expect.Equal(t, "the session that was loaded", again.story(), "user thought text execute:in_progress completed "+
		"edit:in_progress completed text user text execute:in_progress completed edit:in_progress failed text "+
		"user execute:in_progress completed text user text user text")
	_, err = again.prompt(t, s.SessionId, "go on")
	expect.NoError(t, err)
	expect.Equal(t, "a turn after that", again.story(), "text")
}

// A long-lived agent has its own files and conversation, and its checklists are plans.
func TestLongLivedAgent(t *testing.T) {
	e := connect(t, startDaemon(t), "agent/main")
	s, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: t.TempDir(), McpServers: []sdk.McpServer{}})
	expect.NoError(t, err)
	for range 2 {
		_, err = e.prompt(t, s.SessionId, "plan it")
		expect.NoError(t, err)
		i := slices.IndexFunc(e.updates, func(u sdk.SessionUpdate) bool { return u.Plan != nil })
		plan := e.updates[max(i, 0)].Plan
		if plan == nil || len(plan.Entries) != 2 || plan.Entries[0].Content != "look" ||
			plan.Entries[0].Status != sdk.PlanEntryStatusCompleted || plan.Entries[1].Status != sdk.PlanEntryStatusInProgress {
			t.Errorf("the plan is %+v", plan)
		}
	}
}
