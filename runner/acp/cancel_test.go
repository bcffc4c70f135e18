package acp_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	sdk "github.com/coder/acp-go-sdk"

	"holon/responses"
	"holon/responses/client"
	"holon/test/expect"
	"holon/test/gittest"
)

// status is that of the only response of a session, as agentd has it when its turn has ended.
func (d *daemon) status(t *testing.T, id sdk.SessionId) responses.Status {
	t.Helper()
	d.mu.Lock()
	response := d.sessions[string(id)].ResponseIDs[0]
	d.mu.Unlock()
	c := client.Unix(filepath.Join(d.dir, "s"))
	defer c.Close()
	for _, err := range c.Events(t.Context(), response, -1) {
		expect.NoError(t, err)
	}
	got, err := c.GetResponse(t.Context(), response)
	expect.NoError(t, err)
	return got.Status
}

// A cancellation, and an editor that leaves, end the response; nothing is applied.
func TestCancel(t *testing.T) {
	d := startDaemon(t)
	dir := gittest.NewRepo(t, map[string]string{"greeting.txt": "hello\n"})
	for name, end := range map[string]func(*editor, sdk.SessionId) error{
		"session/cancel": func(e *editor, id sdk.SessionId) error {
			return e.Cancel(context.Background(), sdk.CancelNotification{SessionId: id})
		},
		"the editor leaves": func(e *editor, _ sdk.SessionId) error { return e.leave() },
	} {
		t.Run(name, func(t *testing.T) {
			e := connect(t, d, "scripted/slow")
			s, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{}})
			expect.NoError(t, err)
			works := make(chan struct{})
			e.seen = func(u sdk.SessionUpdate) {
				if u.ToolCall != nil {
					close(works)
				}
			}
			type ended struct {
				sdk.PromptResponse
				error
			}
			prompted := make(chan ended, 1)
			go func() {
				got, err := e.prompt(t, s.SessionId, "sleep")
				prompted <- ended{got, err}
			}()
			<-works
			if _, err := e.Prompt(t.Context(), sdk.PromptRequest{SessionId: s.SessionId,
				Prompt: []sdk.ContentBlock{sdk.TextBlock("meanwhile")}}); err == nil {
				t.Error("a second prompt is taken while there is one")
			}
			expect.NoError(t, end(e, s.SessionId))
			if got := <-prompted; name == "session/cancel" {
				expect.NoError(t, got.error)
				expect.Equal(t, "the end", got.StopReason, sdk.StopReasonCancelled)
			}
			expect.Equal(t, "the response", d.status(t, s.SessionId), responses.StatusCancelled)
		})
	}
}

// A question that is open when the prompt is cancelled has no answer, and nothing is applied.
func TestCancelWhileAsked(t *testing.T) {
	d := startDaemon(t)
	dir := gittest.NewRepo(t, map[string]string{"greeting.txt": "hello\n"})
	e := connect(t, d, "scripted/turns")
	s, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{}})
	expect.NoError(t, err)
	e.choose = func(context.Context, sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome {
		expect.NoError(t, e.Cancel(context.Background(), sdk.CancelNotification{SessionId: s.SessionId}))
		return sdk.RequestPermissionOutcome{Cancelled: &sdk.RequestPermissionOutcomeCancelled{}}
	}
	got, err := e.prompt(t, s.SessionId, "greet")
	expect.NoError(t, err)
	expect.Equal(t, "the end", got.StopReason, sdk.StopReasonCancelled)
	data, err := os.ReadFile(filepath.Join(dir, "greeting.txt"))
	expect.NoError(t, err)
	expect.Equal(t, "the file", string(data), "hello\n")

	e.choose = choose(sdk.PermissionOptionKindAllowAlways)
	_, err = e.prompt(t, s.SessionId, "again")
	expect.NoError(t, err)
	expect.Contains(t, "the story", e.story(), "edit:pending mode:apply completed")
	data, err = os.ReadFile(filepath.Join(dir, "greeting.txt"))
	expect.NoError(t, err)
	expect.Equal(t, "the file", string(data), "hello world\nmore\n")
	e.choose = choose(sdk.PermissionOptionKindAllowOnce)
	_, err = e.prompt(t, s.SessionId, "a Makefile")
	expect.NoError(t, err)
	expect.Equal(t, "questions in the mode apply", len(e.asked), 1) // about the Makefile, which is executed
}

// A turn that fails is an error, and what it changed is not applied before the next one.
func TestFailedTurn(t *testing.T) {
	e := connect(t, startDaemon(t), "scripted/fails")
	dir := gittest.NewRepo(t, map[string]string{"a": "a"})
	s, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{}})
	expect.NoError(t, err)
	_, err = e.SetSessionMode(t.Context(), sdk.SetSessionModeRequest{SessionId: s.SessionId, ModeId: "apply"})
	expect.NoError(t, err)
	for _, want := range []string{"execute:in_progress completed", "text edit:pending completed"} {
		got, err := e.prompt(t, s.SessionId, "work")
		if failed := got.StopReason == ""; failed != (err != nil) || failed != (want == "execute:in_progress completed") {
			t.Errorf("the end is %q, %v", got.StopReason, err)
		}
		expect.Equal(t, "the turn", e.story(), want)
	}
	data, err := os.ReadFile(filepath.Join(dir, "a"))
	expect.NoError(t, err)
	expect.Equal(t, "the file", string(data), "half\n")
}

// A change that conflicts with the editor's files is shown again until it is applied; nothing of it is written before.
func TestConflict(t *testing.T) {
	d := startDaemon(t)
	dir := gittest.NewRepo(t, map[string]string{"greeting.txt": "hello\n"})
	e := connect(t, d, "scripted/turns")
	s, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{}})
	expect.NoError(t, err)
	e.choose = func(ctx context.Context, r sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome {
		gittest.Write(t, dir, map[string]string{"greeting.txt": "good bye\n"})
		return choose(sdk.PermissionOptionKindAllowOnce)(ctx, r)
	}
	_, err = e.prompt(t, s.SessionId, "greet")
	expect.NoError(t, err)
	expect.Contains(t, "the text", e.text(), "The change was not applied")
	gittest.Write(t, dir, map[string]string{"greeting.txt": "hello\n"})
	e.choose = choose(sdk.PermissionOptionKindAllowOnce)
	_, err = e.prompt(t, s.SessionId, "again")
	expect.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(dir, "greeting.txt"))
	expect.NoError(t, err)
	expect.Equal(t, "the file", string(data), "hello world\nmore\n")
}

// A prompt that is cancelled while its response is being accepted leaves no response that goes on.
func TestCancelWhileAccepted(t *testing.T) {
	d := startDaemon(t)
	d.accepted = make(chan struct{})
	e := connect(t, d, "scripted/slow")
	s, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: gittest.NewRepo(t, map[string]string{"a": "a"}),
		McpServers: []sdk.McpServer{}})
	expect.NoError(t, err)
	go func() {
		<-d.accepted
		_ = e.Cancel(context.Background(), sdk.CancelNotification{SessionId: s.SessionId})
	}()
	got, err := e.prompt(t, s.SessionId, "sleep")
	expect.NoError(t, err)
	expect.Equal(t, "the end", got.StopReason, sdk.StopReasonCancelled)
	expect.Equal(t, "the response", d.status(t, s.SessionId), responses.StatusCancelled)
}
