package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"holon/responses/stream"
	"holon/runner/control/wire"
)

// Live calls show for what an agent writes in the turn of a message, as it is written, until ctx ends or the connection
// breaks. What was said is in the events, so that is no error.
func (c *Client) Live(ctx context.Context, agentID, messageID string, show func(wire.Live)) {
	path, err := c.agent(ctx, agents, agentID, "/live")
	if err != nil {
		return
	}
	resp, err := c.do(ctx, http.MethodGet, path+"?message_id="+url.QueryEscape(messageID), nil,
		http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return
	}
	defer resp.Body.Close()
	for data, err := range stream.NewDecoder(resp.Body, stream.SSE).Data() {
		var l wire.Live
		if err != nil || json.Unmarshal(data, &l) != nil {
			return
		}
		show(l)
	}
}
