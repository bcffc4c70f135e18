package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	answer, err := c.json(ctx, method, path, body, maxResponse)
	if err != nil {
		return nil, err
	}
	resp, err := responses.DecodeResponse(answer)
	if err != nil {
		return nil, c.badAnswer(method+" "+path, err)
	}
	return resp, nil
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
	Data            responses.Items
	FirstID, LastID string
	HasMore         bool
}

// InputItems lists the input items of a stored response.
func (c *Client) InputItems(ctx context.Context, id string, page ItemPage) (*ItemList, error) {
	if err := responses.CheckID("response_id", id); err != nil {
		return nil, err
	}
	path := "/responses/" + id + "/input_items"
	answer, err := c.json(ctx, http.MethodGet, path+page.query(), nil, maxRequest+maxSmall)
	if err != nil {
		return nil, err
	}
	list, err := decodeItemList(answer)
	if err != nil {
		return nil, c.badAnswer("GET "+path, err)
	}
	return list, nil
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

func decodeItemList(answer []byte) (*ItemList, error) {
	if err := responses.CheckDepth(answer); err != nil {
		return nil, err
	}
	var w struct {
		Object  string            `json:"object"`
		Data    []json.RawMessage `json:"data"`
		FirstID string            `json:"first_id"`
		LastID  string            `json:"last_id"`
		HasMore bool              `json:"has_more"`
	}
	if err := json.Unmarshal(answer, &w); err != nil {
		return nil, err
	}
	if w.Object != "list" {
		return nil, errors.New("it is not a list")
	}
	list := &ItemList{FirstID: w.FirstID, LastID: w.LastID, HasMore: w.HasMore}
	for i, raw := range w.Data {
		item, err := responses.DecodeItem(raw)
		if err != nil {
			return nil, fmt.Errorf("data[%d]: %w", i, err)
		}
		list.Data = append(list.Data, item)
	}
	return list, nil
}

// Model is a model that the server offers.
type Model struct {
	ID      string `json:"id"` // what a request names
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// Models lists the models that the server announces, its default first.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	answer, err := c.json(ctx, http.MethodGet, "/models", nil, maxResponse)
	if err != nil {
		return nil, err
	}
	var w struct {
		Object string  `json:"object"`
		Data   []Model `json:"data"`
	}
	if err := json.Unmarshal(answer, &w); err != nil {
		return nil, c.badAnswer("GET /models", err)
	}
	if w.Object != "list" {
		return nil, c.badAnswer("GET /models", errors.New("it is not a list"))
	}
	return w.Data, nil
}
