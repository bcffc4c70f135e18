package client

import (
	"context"
	"encoding/json"
	"net/http"

	"holon/responses/tasks"
)

// Tasks lists the newest tasks of all sessions, the newest first.
func (c *Client) Tasks(ctx context.Context) (*tasks.List, error) {
	answer, err := c.json(ctx, http.MethodGet, "/tasks", nil, maxResponse)
	if err != nil {
		return nil, err
	}
	var list tasks.List
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, c.badAnswer("GET /tasks", err)
	}
	return &list, nil
}
