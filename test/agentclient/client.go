// Package agentclient has the client of the host with calls that it does not make: a turn and its stream in one
// request, and the replay of a stream. The host follows the journal of a turn instead.
package agentclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"strconv"

	"holon/responses"
	"holon/responses/client"
	"holon/responses/stream"
)

// Client calls an agentd that a test trusts.
type Client struct {
	*client.Client
	http *http.Client
}

// Unix returns a client for the server that listens on the Unix socket.
func Unix(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &Client{client.Unix(socket), &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

func (c *Client) Close() {
	c.Client.Close()
	c.http.CloseIdleConnections()
}

// Create runs a turn and waits for its response.
func (c *Client) Create(ctx context.Context, req *responses.Request) (*responses.Response, error) {
	body, err := c.post(ctx, req, false)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	answer, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	return responses.DecodeResponse(answer)
}

// StreamRaw runs a turn and yields the JSON of its events as they come. An error is the last pair.
func (c *Client) StreamRaw(ctx context.Context, req *responses.Request) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		body, err := c.post(ctx, req, true)
		if err != nil {
			yield(nil, err)
			return
		}
		defer body.Close()
		for event, err := range stream.NewDecoder(body, stream.SSE).Events() {
			if !yield(event, err) {
				return
			}
		}
	}
}

// FromStart asks Replay for the whole stream.
const FromStart = -1

// Replay yields the events of a stored response whose sequence number exceeds after, and those to come. It yields
// nothing where there are none. An error is the last pair.
func (c *Client) Replay(ctx context.Context, id string, after int64) iter.Seq2[responses.Event, error] {
	return func(yield func(responses.Event, error) bool) {
		path := "/responses/" + id + "?stream=true"
		if after > FromStart {
			path += "&starting_after=" + strconv.FormatInt(after, 10)
		}
		body, err := c.do(ctx, http.MethodGet, path, nil)
		if err != nil {
			yield(responses.Event{}, err)
			return
		}
		defer body.Close()
		none := true
		for data, err := range stream.NewDecoder(body, stream.SSE).Events() {
			if none && after > FromStart && err == stream.ErrTruncated {
				return // the answer is whole and empty
			}
			none = false
			var ev responses.Event
			if err == nil {
				ev, err = responses.DecodeEvent(data)
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

func (c *Client) post(ctx context.Context, req *responses.Request, streamed bool) (io.ReadCloser, error) {
	whole := *req
	whole.Stream = streamed
	body, err := json.Marshal(whole)
	if err != nil {
		return nil, err
	}
	return c.do(ctx, http.MethodPost, "/responses", body)
}

func (c *Client) do(ctx context.Context, method, path string, body []byte) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://agentd"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	answer, err := io.ReadAll(resp.Body)
	return nil, errors.Join(responses.DecodeEnvelope(resp.StatusCode, answer), err, resp.Body.Close())
}
