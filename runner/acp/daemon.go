package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"

	"holon/responses"
	"holon/responses/client"
)

// daemon is what is used of a daemon: its responses, and the sessions that make them.
type daemon struct{ client *client.Client }

// createRequest is a request for a response that the daemon makes in the background.
type createRequest struct {
	Model      string          `json:"model"`
	Input      responses.Items `json:"input"`
	Previous   string          `json:"previous_response_id,omitempty"`
	Include    []string        `json:"include"`
	Background bool            `json:"background"`

	Reasoning *responses.ReasoningConfig `json:"reasoning,omitzero"`
	Holon     requestKeys                `json:"holon,omitzero"`
}

// requestKeys are those that a daemon takes beyond the keys of agentd.
type requestKeys struct {
	SessionID string `json:"session_id"`
	Workspace string `json:"workspace,omitempty"`
}

func (d daemon) create(ctx context.Context, r createRequest) (*responses.Response, error) {
	r.Background, r.Include = true, []string{"holon:tool_calls"}
	body, err := responses.Marshal(r)
	if err != nil {
		return nil, responses.Internal("the request cannot be encoded", err)
	}
	return d.client.Below("/v1").Create(ctx, body)
}

// get reads a T.
func get[T any](ctx context.Context, c *client.Client, path string) (*T, error) {
	answer, err := c.Call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := responses.Unmarshal(answer, out); err != nil {
		return nil, responses.Internal("the daemon's answer cannot be read", err)
	}
	return out, nil
}

func (d daemon) events(ctx context.Context, id string) iter.Seq2[responses.Event, error] {
	return d.client.Below("/v1").Events(ctx, id, -1)
}

func (d daemon) response(ctx context.Context, id string) (*responses.Response, error) {
	return d.client.Below("/v1").GetResponse(ctx, id)
}

// cancel ends a response. One that is final already stays as it is.
func (d daemon) cancel(ctx context.Context, id string) error {
	_, err := d.client.Below("/v1").Cancel(ctx, id)
	return err
}

// sessionInfo is a session as the daemon describes it.
type sessionInfo struct {
	Model       string   `json:"model"`
	Workspace   string   `json:"workspace"` // "": it began with an empty tree
	ResponseIDs []string `json:"response_ids"`
}

// session returns a session by its id or its name.
func (d daemon) session(ctx context.Context, id string) (*sessionInfo, error) {
	return get[sessionInfo](ctx, d.client, "/sessions/"+id)
}

// changes are what a session has changed since it was made or applied last.
type changes struct {
	Patch  string `json:"patch"` // a file of the host, in the format of git
	Result string `json:"result_tree"`
	Files  []struct {
		Path string `json:"path"` // below the top of the working tree
	} `json:"files"`
}

func (d daemon) diff(ctx context.Context, id string) (*changes, error) {
	answer, err := get[struct {
		Changes changes `json:"changes"`
	}](ctx, d.client, "/sessions/"+id+"/diff")
	if err != nil {
		return nil, err
	}
	return &answer.Changes, nil
}

// edits reads the patch, as far as it can be shown.
func (c *changes) edits() ([]edit, error) {
	f, err := os.Open(c.Patch)
	if err != nil {
		return nil, fmt.Errorf("read the session's patch: %w", err)
	}
	defer f.Close()
	patch, err := io.ReadAll(io.LimitReader(f, 2*maxDiff))
	if err != nil {
		return nil, fmt.Errorf("read the session's patch: %w", err)
	}
	return editsOf(string(patch)), nil
}

// codeExecuted is the code with which an apply is refused that has files which programs execute without being asked.
const codeExecuted = "executed_files"

// apply brings the change of a session into the files of its workspace, all of it or nothing.
func (d daemon) apply(ctx context.Context, id string, allowExecuted bool) error {
	body, err := json.Marshal(map[string]bool{"allow_executed": allowExecuted})
	if err != nil {
		return err
	}
	_, err = d.client.Call(ctx, http.MethodPost, "/control/sessions/"+id+"/apply", body)
	return err
}

func hasCode(err error, code string) bool {
	e, ok := errors.AsType[*responses.Error](err)
	return ok && e.Code == code
}
