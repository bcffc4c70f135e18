package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"holon/internal/visible"
	"holon/responses"
	"holon/responses/tasks"
	"holon/runner/agent/view"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/state"
)

const (
	maxForm      = 3 << 20          // bytes of a form; a prompt of 1 MiB is longer when it is encoded
	operator     = "operator"       // who owns the sessions that the console continues
	codeExecuted = "executed_files" // code with which a change to what programs execute unasked is refused
)

// action carries out what a form asks for, about an agent or a session, and says what was done.
type action func(ctx context.Context, c *client.Client, id string, form url.Values) (done string, err error)

// agentActions are what the pages of an agent can do, by the ends of their paths.
var agentActions = map[string]action{
	"prompt": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		_, err := c.Prompt(ctx, id, wire.Prompt{Text: strings.ReplaceAll(form.Get("text"), "\r\n", "\n"),
			Priority: form.Get("priority")}, form.Get("key"))
		return "Sent.", err
	},
	"abort": func(ctx context.Context, c *client.Client, id string, _ url.Values) (string, error) {
		_, err := c.Abort(ctx, id, wire.Abort{})
		return "The turn is aborted.", err
	},
	"stop": func(ctx context.Context, c *client.Client, id string, _ url.Values) (string, error) {
		_, err := c.Control(ctx, id, wire.Control{Action: "stop"})
		return "The agent is stopped.", err
	},
	"start": func(ctx context.Context, c *client.Client, id string, _ url.Values) (string, error) {
		_, err := c.Control(ctx, id, wire.Control{Action: "start"})
		return "The agent is started.", err
	},
	"unqueue": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		_, err := c.Unqueue(ctx, id, form.Get("message_id"))
		return "The message is taken out of the queue.", err
	},
	"cancel-timer": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		_, err := c.CancelTimer(ctx, id, form.Get("timer_id"))
		return "The timer is cancelled.", err
	},
	"create-work": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		_, err := c.CreateWork(ctx, id, wire.WorkItem{Objective: form.Get("objective")}, form.Get("key"))
		return "The work item is made.", err
	},
	"pick-work": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		_, err := c.PickWork(ctx, id, form.Get("work_item_id"))
		return "The work item is the current one.", err
	},
	"complete-work": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		_, err := c.CompleteWork(ctx, id, form.Get("work_item_id"))
		return "The work item is completed.", err
	},
	"stop-task": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		_, err := c.StopTask(ctx, id, form.Get("task_id"), form.Get("force") != "")
		return "The task is asked to end.", err
	},
	"task-input": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		_, err := c.TaskInput(ctx, id, form.Get("task_id"), tasks.Input{Input: form.Get("text") + "\n"})
		return "Written.", err
	},
	"apply": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		trees, err := c.ApplyWorkspace(ctx, id, view.WorkspaceApply{WorkspaceID: form.Get("workspace_id"),
			AllowExecuted: form.Get("allow_executed") != "", ResultTrees: form["result_tree"]})
		var done []string
		for _, t := range trees {
			done = append(done, cmp.Or(t.Skipped, applied(t.Path, t.Written, t.Deleted)))
		}
		return cmp.Or(strings.Join(done, " "), "Nothing was changed."), err
	},
	"checkout": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		made, err := c.CheckoutWorkspace(ctx, id, view.WorkspaceCheckout{WorkspaceID: form.Get("workspace_id"),
			Branch: form.Get("branch")})
		return fmt.Sprintf("The branch %s is in %s.", made.Branch, made.Worktree), err
	},
	"sync": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		brought, err := c.SyncWorkspace(ctx, id, form.Get("workspace_id"))
		return fmt.Sprintf("The copy got %d changed files.", brought.Changed), err
	},
	"budget": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		tokens, err := strconv.ParseInt(cmp.Or(form.Get("max_tokens"), "0"), 10, 64)
		if err != nil {
			return "", &state.Error{Code: wire.CodeInvalidValue, Param: "max_tokens", Message: "is not a number",
				Hint: "give a number of tokens, or 0 for no bound"}
		}
		cost, err := strconv.ParseFloat(cmp.Or(form.Get("max_cost"), "0"), 64)
		if err != nil || cost < 0 || cost > 1e9 {
			return "", &state.Error{Code: wire.CodeInvalidValue, Param: "max_cost", Message: "is not an amount",
				Hint: "give an amount like 2.50, or 0 for no bound"}
		}
		micros := state.Amount(cost * 1e6)
		_, err = c.SetBudget(ctx, id, wire.Budget{MaxTokens: &tokens, MaxCost: &micros})
		return "The budget is set.", err
	},
}

// sessionActions are what the page of a session can do.
var sessionActions = map[string]action{
	"prompt": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		s, err := c.Session(ctx, id)
		if err == nil && s.Owner != operator { // by that id, the operator would begin another one
			err = &state.Error{Code: wire.CodeForbidden, Param: "session", Message: "the session is one of " + s.Owner,
				Hint: "its owner's token continues it"}
		}
		if err != nil {
			return "", err
		}
		q := responses.NewRequest(s.Model, responses.UserMessage(strings.ReplaceAll(form.Get("text"), "\r\n", "\n")))
		q.ShowToolCalls, q.Holon.SessionID = true, s.ID
		_, err = c.Responses().WithKey(form.Get("key")).Background(ctx, q)
		return "Sent.", typed(err)
	},
	"cancel": func(ctx context.Context, c *client.Client, _ string, form url.Values) (string, error) {
		_, err := c.Responses().Cancel(ctx, form.Get("response_id"))
		return "The turn is interrupted.", typed(err)
	},
	"apply": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		done, err := c.ApplySession(ctx, id, wire.ApplySession{AllowExecuted: form.Get("allow_executed") != "",
			ResultTrees: form["result_tree"]})
		return applied(done.Path, done.Written, done.Deleted), err
	},
	"checkout": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		made, err := c.CheckoutSession(ctx, id, wire.CheckoutSession{Branch: form.Get("branch")})
		return fmt.Sprintf("The branch %s is in %s.", made.Branch, made.Worktree), err
	},
	"rewind": func(ctx context.Context, c *client.Client, id string, form url.Values) (string, error) {
		back, err := c.RewindSession(ctx, id, wire.RewindSession{ResponseID: form.Get("response_id"),
			ConversationOnly: form.Get("conversation_only") != ""})
		if !back.TreeRestored {
			return "The next turn continues that one; the files stayed as they are.", err
		}
		return "The session is what it was after that turn.", err
	},
	"close": func(ctx context.Context, c *client.Client, id string, _ url.Values) (string, error) {
		_, err := c.CloseSession(ctx, id)
		return "The session is closed.", err
	},
}

// typed is an error of Open Responses as one of the control plane.
func typed(err error) error {
	if e, ok := errors.AsType[*responses.Error](err); ok {
		return &state.Error{Code: state.Code(e.Code), Param: e.Param, Message: e.Message, Hint: e.Hint, Err: err}
	}
	return err
}

func applied(path string, written, deleted []string) string {
	return fmt.Sprintf("%d files written and %d deleted in %s.", len(written), len(deleted), path)
}

// answer is what an action did, or why it did not.
type answer struct {
	Done  string            `json:"done,omitempty"`
	Error *wire.FailureInfo `json:"error,omitempty"`
	Back  string            `json:"-"` // the page of what it is about
}

// act carries out an action. A script gets the answer as JSON, a browser without one as a page.
func (c *Console) act(table map[string]action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		do := table[r.PathValue("action")]
		if do == nil {
			c.show(w, r, func(*http.Request) (page, error) {
				return page{}, &state.Error{Code: wire.CodeNoRoute, Message: "the console cannot do that"}
			})
			return
		}
		out, status := answer{Back: strings.TrimSuffix(r.URL.EscapedPath(), "/"+r.PathValue("action"))}, http.StatusOK
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		err := parseForm(r)
		if err == nil {
			out.Done, err = do(r.Context(), c.client, r.PathValue("id"), r.PostForm)
		}
		if err != nil {
			var f wire.Failure
			f, status, _ = wire.Explain(err)
			if status >= http.StatusInternalServerError {
				c.log.Error("an action of the console failed", "action", r.PathValue("action"), "err", err)
			}
			if state.IsCode(err, codeExecuted) {
				f.Error.Hint = "read them here, then tick the box next to Apply if you mean it"
			}
			out.Done, out.Error = "", &f.Error
		}
		out.Done = visible.OneLine(out.Done, 1000)
		if !strings.Contains(r.Header.Get("Accept"), "application/json") {
			c.render(w, status, page{Name: "done", Title: "Done", Data: out})
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(out) // an error means that the browser is gone
	}
}

// parseForm reads a form of this console: no other type of body is one.
func parseForm(r *http.Request) error {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/x-www-form-urlencoded" {
		return &state.Error{Code: wire.CodeUnsupportedMedia, Param: "Content-Type", Message: "the body is not a form",
			Hint: "use the pages of the console"}
	}
	if err := r.ParseForm(); err != nil {
		return &state.Error{Code: wire.CodeInvalidValue, Message: "the form can't be read", Hint: "send less", Err: err}
	}
	return nil
}
