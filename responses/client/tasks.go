package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"holon/responses"
	"holon/responses/tasks"
)

// Tasks lists the newest tasks of all sessions, the newest first.
func (c *Client) Tasks(ctx context.Context) (*tasks.List, error) {
	return taskCall[tasks.List](ctx, c, http.MethodGet, "/tasks", nil)
}

// FollowTasks yields every task as it is, then a report with Complete, and then each task that changes, until the
// server ends or breaks the stream off. An error is the last pair.
func (c *Client) FollowTasks(ctx context.Context) iter.Seq2[tasks.Report, error] {
	return func(yield func(tasks.Report, error) bool) {
		for line, err := range c.lines(ctx, "/tasks/follow") {
			var report tasks.Report
			if err == nil {
				if err = json.Unmarshal(line, &report); err != nil {
					err = c.badAnswer("GET /tasks/follow", err)
				}
			}
			if !yield(report, err) || err != nil {
				return
			}
		}
	}
}

// StartTask starts a command as a task of a session, once for the id that the caller chose.
func (c *Client) StartTask(ctx context.Context, start tasks.Start) (*tasks.StatusResult, error) {
	return taskCall[tasks.StatusResult](ctx, c, http.MethodPost, "/tasks", start)
}

// TaskOutput returns a preview of what a task has printed, of about so many tokens; 0 for the server's default.
func (c *Client) TaskOutput(ctx context.Context, taskID string, tokens int) (*tasks.OutputResult, error) {
	path := taskPath(taskID, "/output")
	if tokens > 0 {
		path += "?max_output_tokens=" + strconv.Itoa(tokens)
	}
	return taskCall[tasks.OutputResult](ctx, c, http.MethodGet, path, nil)
}

// TaskInput writes to a task.
func (c *Client) TaskInput(ctx context.Context, taskID string, in tasks.Input) (*tasks.InputResult, error) {
	return taskCall[tasks.InputResult](ctx, c, http.MethodPost, taskPath(taskID, "/input"), in)
}

// StopTask ends a task, and returns when it has ended or has not within the server's grace.
func (c *Client) StopTask(ctx context.Context, taskID string, force bool) (*tasks.StopResult, error) {
	return taskCall[tasks.StopResult](ctx, c, http.MethodPost, taskPath(taskID, "/stop"), tasks.Stop{Force: force})
}

func taskPath(taskID, rest string) string { return "/tasks/" + url.PathEscape(taskID) + rest }

// taskCall makes a call with a body, nil for none, whose answer is a T.
func taskCall[T any](ctx context.Context, c *Client, method, path string, body any) (*T, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = responses.Marshal(body); err != nil {
			return nil, responses.Internal("the call cannot be encoded", err)
		}
	}
	return call(ctx, c, method, path, data, maxResponse, decoded[T])
}
