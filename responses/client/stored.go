package client

import (
	"context"
	"net/http"

	"holon/responses"
)

// Background begins a turn and returns its response at once, usually queued or in
// progress. Poll it with GetResponse, follow it with
// Entries, end it with Cancel. req.Stream and req.Background are ignored.
func (c *Client) Background(ctx context.Context, req *responses.Request) (*responses.Response, error) {
	detached := *req
	detached.Stream, detached.Background = false, true
	data, err := encodeRequest(detached, maxRequest)
	if err != nil {
		return nil, err
	}
	return c.Create(ctx, data)
}

// Create sends the body of a request that is answered with a response, as it is.
func (c *Client) Create(ctx context.Context, body []byte) (*responses.Response, error) {
	return c.response(ctx, http.MethodPost, "/responses", body)
}

// InputItems returns the newest items of the input of a response, the oldest first.
func (c *Client) InputItems(ctx context.Context, id string) (responses.Items, error) {
	if err := responses.CheckID("response_id", id); err != nil {
		return nil, err
	}
	list, err := call(ctx, c, http.MethodGet, "/responses/"+id+"/input_items?order=asc&limit=100", nil, maxResponse,
		func(answer []byte) (list struct {
			Data responses.Items `json:"data"`
		}, err error) {
			return list, responses.Unmarshal(answer, &list)
		})
	return list.Data, err
}

// GetResponse fetches a stored response in its current state. While its turn runs,
// its output holds the items that are closed.
func (c *Client) GetResponse(ctx context.Context, id string) (*responses.Response, error) {
	return c.responseOf(ctx, http.MethodGet, id, "", nil)
}

// Cancel ends the turn that makes the response id and returns its final
// response. A response that is final already is returned as it is.
func (c *Client) Cancel(ctx context.Context, id string) (*responses.Response, error) {
	return c.responseOf(ctx, http.MethodPost, id, "/cancel", []byte{})
}

// responseOf makes a call about the response id whose answer is a response.
func (c *Client) responseOf(ctx context.Context, method, id, below string, body []byte) (*responses.Response, error) {
	if err := responses.CheckID("response_id", id); err != nil {
		return nil, err
	}
	return c.response(ctx, method, "/responses/"+id+below, body)
}

// response makes a call whose answer is a response.
func (c *Client) response(ctx context.Context, method, path string, body []byte) (*responses.Response, error) {
	return call(ctx, c, method, path, body, maxResponse, responses.DecodeResponse)
}
