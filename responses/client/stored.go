package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"holon/responses"
)

// Background begins a turn and returns its response at once, usually queued or in
// progress. Poll it with GetResponse, follow it with
// Replay, end it with Cancel. req.Stream and req.Background are ignored.
func (c *Client) Background(ctx context.Context, req *responses.Request) (*responses.Response, error) {
	detached := *req
	detached.Stream, detached.Background = false, true
	data, err := encodeRequest(detached, maxRequest)
	if err != nil {
		return nil, err
	}
	return c.response(ctx, http.MethodPost, "/responses", data)
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

// Delete removes a stored response: it can be neither fetched nor continued any
// more. A response that is not over is refused with response_in_progress.
func (c *Client) Delete(ctx context.Context, id string) error {
	if err := responses.CheckID("response_id", id); err != nil {
		return err
	}
	_, err := c.json(ctx, http.MethodDelete, "/responses/"+id, nil, maxSmall)
	return err
}

// ItemPage asks for a part of a list of items. The zero value asks for the
// server's default: the newest 20.
type ItemPage struct {
	Limit     int    // 1 to 100; 0 for the default
	Ascending bool   // the oldest first
	After     string // id of the item before the page
	Before    string // id of the item behind the page
}

// ItemList is a page of items. FirstID and LastID are "" when it is empty.
type ItemList struct {
	list
	Data    responses.Items `json:"data"`
	FirstID string          `json:"first_id"`
	LastID  string          `json:"last_id"`
	HasMore bool            `json:"has_more"`
}

// list is the beginning of every list.
type list struct {
	Object string `json:"object"`
}

func (l list) check() error {
	if l.Object != "list" {
		return errors.New("it is not a list")
	}
	return nil
}

// decodedList reads a list.
func decodedList[T interface{ check() error }](answer []byte) (*T, error) {
	out, err := decoded[T](answer)
	if err == nil {
		err = (*out).check()
	}
	return out, err
}

// InputItems lists the input items of a stored response.
func (c *Client) InputItems(ctx context.Context, id string, page ItemPage) (*ItemList, error) {
	if err := responses.CheckID("response_id", id); err != nil {
		return nil, err
	}
	path := "/responses/" + id + "/input_items" + page.query()
	return call(ctx, c, http.MethodGet, path, nil, maxRequest+maxSmall, decodedList[ItemList])
}

func (p ItemPage) query() string {
	q := url.Values{}
	if p.Limit != 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Ascending {
		q.Set("order", "asc")
	}
	if p.After != "" {
		q.Set("after", p.After)
	}
	if p.Before != "" {
		q.Set("before", p.Before)
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// Model is a model that the server offers.
type Model struct {
	ID      string `json:"id"` // what a request names
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// Models lists the models that the server announces, its default first.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	type models struct {
		list
		Data []Model `json:"data"`
	}
	found, err := call(ctx, c, http.MethodGet, "/models", nil, maxResponse, decodedList[models])
	if err != nil {
		return nil, err
	}
	return found.Data, nil
}
