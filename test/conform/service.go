package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"holon/responses/stream"
)

// slowly asks for an answer that takes long enough to be interrupted.
const slowly = `"input":"Count slowly from 1 to 2000, one number a line."`

func serviceCases() []Case {
	return []Case{
		{"stored/get", Service, "a stored response can be fetched", getStored},
		{"stored/not stored", Service, "one that was not stored cannot", getNotStored},
		{"stored/delete", Service, "a deleted response is gone", deleteStored},
		{"stored/input items", Service, "the input of a response is listed in pages", inputItems},
		{"stored/replay", Service, "a finished stream is replayed byte for byte, from any number", replay},
		{"background/poll", Service, "a background response is acknowledged at once and can be polled", backgroundPoll},
		{"background/resume", Service, "a background stream that was left is resumed without loss", backgroundResume},
		{"background/cancel", Service, "a background response can be cancelled, again and again", backgroundCancel},
		{"input tokens", Service, "tokens of an input are counted", inputTokens},
		{"models", Service, "models are listed", models},
		{"disconnect", Service, "a stored response survives its client or ends as cancelled, but never hangs",
			disconnect},
	}
}

// get fetches a stored response.
func (s *Suite) get(ctx context.Context, id string) (resource, error) {
	a, err := s.do(ctx, http.MethodGet, "/responses/"+id, nil)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, fmt.Errorf("GET answered %d: %.300s", a.status, a.body)
	}
	return s.resource(a.body)
}

// ended polls a response until it has ended.
func (s *Suite) ended(ctx context.Context, id string) (resource, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*turnLimit)
	defer cancel()
	for {
		r, err := s.get(ctx, id)
		if err != nil {
			return nil, err
		}
		if !slices.Contains([]string{"queued", "in_progress"}, r.str("status")) {
			return r, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("response %s is still %s: %w", id, r.str("status"), ctx.Err())
		}
	}
}

func getStored(ctx context.Context, s *Suite) error {
	r, err := s.completes(ctx, s.request(`{"input":"Say hello."}`))
	if err != nil {
		return err
	}
	got, err := s.get(ctx, r.str("id"))
	return errors.Join(err, expect(err != nil || equal(map[string]any(got), map[string]any(r)),
		"POST answered %v and GET %v", r, got))
}

func getNotStored(ctx context.Context, s *Suite) error {
	r, err := s.completes(ctx, s.request(`{"input":"Say hello.","store":false}`))
	if err != nil {
		return err
	}
	for _, id := range []string{r.str("id"), "resp_conformance_missing"} {
		a, err := s.do(ctx, http.MethodGet, "/responses/"+id, nil)
		if err := failed(a, err, http.StatusNotFound); err != nil {
			return err
		}
	}
	return nil
}

func deleteStored(ctx context.Context, s *Suite) error {
	r, err := s.completes(ctx, s.request(`{"input":"Say hello."}`))
	if err != nil {
		return err
	}
	path := "/responses/" + r.str("id")
	a, err := s.do(ctx, http.MethodDelete, path, nil)
	if err != nil {
		return err
	}
	var gone struct {
		ID      string `json:"id"`
		Deleted bool   `json:"deleted"`
	}
	err = json.Unmarshal(a.body, &gone)
	if err = errors.Join(err, expect(a.status == http.StatusOK && gone.Deleted && gone.ID == r.str("id"),
		"DELETE answered %d: %s", a.status, a.body)); err != nil {
		return err
	}
	got, err := s.do(ctx, http.MethodGet, path, nil)
	if err = failed(got, err, http.StatusNotFound); err != nil {
		return fmt.Errorf("GET after DELETE: %w", err)
	}
	next, err := s.post(ctx, s.request(`{"input":"Go on.","previous_response_id":%s}`, quote(r.str("id"))))
	return failed(next, err, http.StatusNotFound)
}

// inputItems pages through the input of a response. It is one function because each request needs the answer before.
func inputItems(ctx context.Context, s *Suite) error {
	r, err := s.completes(ctx, s.request(
		`{"input":[{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user",`+
			`"content":"three"}]}`))
	if err != nil {
		return err
	}
	type page struct {
		Object  string           `json:"object"`
		Data    []map[string]any `json:"data"`
		FirstID string           `json:"first_id"`
		LastID  string           `json:"last_id"`
		HasMore bool             `json:"has_more"`
	}
	list := func(query string) (p page, err error) {
		a, err := s.do(ctx, http.MethodGet, "/responses/"+r.str("id")+"/input_items"+query, nil)
		if err != nil {
			return p, err
		}
		err = json.Unmarshal(a.body, &p)
		return p, errors.Join(err, expect(a.status == http.StatusOK && p.Object == "list", "%s answered %d: %.300s",
			query, a.status, a.body))
	}
	all, err := list("?order=asc")
	if err != nil {
		return err
	}
	if len(all.Data) != 3 || all.HasMore || all.FirstID != all.Data[0]["id"] || all.LastID != all.Data[2]["id"] {
		return fmt.Errorf("the list is %+v", all)
	}
	down, err := list("?limit=1")
	if err != nil {
		return err
	}
	if len(down.Data) != 1 || !down.HasMore || down.LastID != all.LastID {
		return fmt.Errorf("the newest item is %+v, want %s", down, all.LastID)
	}
	rest, err := list("?limit=2&after=" + down.LastID)
	if err != nil {
		return err
	}
	return expect(len(rest.Data) == 2 && !rest.HasMore && rest.LastID == all.FirstID, "the second page is %+v", rest)
}

func replay(ctx context.Context, s *Suite) error {
	a, err := s.post(ctx, s.request(`{"input":"Count from 1 to 5.","stream":true}`))
	if err != nil {
		return err
	}
	r, events, err := s.checkStream(a, stream.SSE, new(Checker))
	if err != nil {
		return err
	}
	path := "/responses/" + r.str("id") + "?stream=true"
	again, err := s.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	_, second, err := s.checkStream(again, stream.SSE, new(Checker))
	if err != nil {
		return err
	}
	if !bytes.Equal(bytes.Join(events, nil), bytes.Join(second, nil)) {
		return errors.New("the replay has other bytes")
	}
	tail, err := s.tail(ctx, r.str("id"), 3)
	return errors.Join(err, expect(err != nil || bytes.Equal(bytes.Join(events[4:], nil), bytes.Join(tail, nil)),
		"the tail has other bytes"))
}

// tail reads the events of a response after a sequence number.
func (s *Suite) tail(ctx context.Context, id string, after int64) (events [][]byte, err error) {
	resp, err := s.begin(ctx, http.MethodGet, fmt.Sprintf("/responses/%s?stream=true&starting_after=%d", id, after),
		nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the tail was answered with %d", resp.StatusCode)
	}
	for data, err := range stream.Events(resp.Body, stream.SSE) {
		if err != nil {
			return nil, err
		}
		events = append(events, bytes.Clone(data))
	}
	return events, nil
}

// backgroundPoll takes the acknowledgement of an answer that takes long: a short one may have ended before it is read.
func backgroundPoll(ctx context.Context, s *Suite) error {
	long, err := s.created(ctx, s.request(`{%s,"background":true}`, slowly))
	if err != nil {
		return err
	}
	if status := long.str("status"); status != "queued" && status != "in_progress" || long["background"] != true {
		return fmt.Errorf("the acknowledgement is %q, background %v", status, long["background"])
	}
	if _, err := s.do(ctx, http.MethodPost, "/responses/"+long.str("id")+"/cancel", nil); err != nil {
		return err
	}
	r, err := s.created(ctx, s.request(`{"input":"Say hello.","background":true}`))
	if err != nil {
		return err
	}
	got, err := s.ended(ctx, r.str("id"))
	if err != nil {
		return err
	}
	return completed(got)
}

func backgroundResume(ctx context.Context, s *Suite) error {
	id, last, err := s.readUntil(ctx, s.request(`{"input":"Count from 1 to 5.","background":true,"stream":true}`),
		"response.output_item.added")
	if err != nil {
		return err
	}
	tail, err := s.tail(ctx, id, last)
	if err != nil {
		return err
	}
	for i, data := range tail {
		var ev struct {
			Sequence int64 `json:"sequence_number"`
		}
		if err := json.Unmarshal(data, &ev); err != nil || ev.Sequence != last+1+int64(i) {
			return fmt.Errorf("event %d after %d has number %d: %v", i, last, ev.Sequence, err)
		}
	}
	r, err := s.ended(ctx, id)
	if err != nil {
		return err
	}
	return completed(r)
}

func backgroundCancel(ctx context.Context, s *Suite) error {
	r, err := s.created(ctx, s.request(`{%s,"background":true}`, slowly))
	if err != nil {
		return err
	}
	for range 2 {
		a, err := s.do(ctx, http.MethodPost, "/responses/"+r.str("id")+"/cancel", nil)
		if err != nil {
			return err
		}
		if a.status != http.StatusOK {
			return fmt.Errorf("cancel answered %d: %.300s", a.status, a.body)
		}
		got, err := s.resource(a.body)
		if err = errors.Join(err, expect(got.str("status") == "cancelled", "the cancelled response is %q",
			got.str("status"))); err != nil {
			return err
		}
	}
	got, err := s.get(ctx, r.str("id"))
	return errors.Join(err, expect(err != nil || got.str("status") == "cancelled", "the stored response is %q",
		got.str("status")))
}

func inputTokens(ctx context.Context, s *Suite) error {
	count := func(text string) (n int64, err error) {
		a, err := s.do(ctx, http.MethodPost, "/responses/input_tokens", s.request(`{"input":%s}`, quote(text)))
		if err != nil {
			return 0, err
		}
		var got struct {
			Object string `json:"object"`
			Tokens int64  `json:"input_tokens"`
		}
		err = json.Unmarshal(a.body, &got)
		return got.Tokens, errors.Join(err,
			expect(a.status == http.StatusOK && got.Object == "response.input_tokens" && got.Tokens > 0,
				"answered %d: %.300s", a.status, a.body))
	}
	short, err1 := count("one")
	long, err2 := count("one two three four five six seven eight nine ten")
	return errors.Join(err1, err2, expect(short < long, "%d tokens for one word and %d for ten", short, long))
}

func models(ctx context.Context, s *Suite) error {
	a, err := s.do(ctx, http.MethodGet, "/models", nil)
	if err != nil {
		return err
	}
	var list struct {
		Object string `json:"object"`
		Data   []struct {
			ID     string `json:"id"`
			Object string `json:"object"`
		} `json:"data"`
	}
	err = json.Unmarshal(a.body, &list)
	err = errors.Join(err, expect(a.status == http.StatusOK && list.Object == "list" && len(list.Data) > 0,
		"answered %d: %.300s", a.status, a.body))
	for _, m := range list.Data {
		err = errors.Join(err, expect(m.ID != "" && m.Object == "model", "a model is %+v", m))
	}
	return err
}

func disconnect(ctx context.Context, s *Suite) error {
	id, _, err := s.readUntil(ctx, s.request(`{"input":"Count from 1 to 5.","stream":true}`),
		"response.output_item.added")
	if err != nil {
		return err
	}
	_, err = s.ended(ctx, id)
	return err
}
