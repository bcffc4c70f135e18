package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
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
			func(t *trial) {
				id, _ := t.readUntil(t.request(`{"input":"Count from 1 to 5.","stream":true}`),
					"response.output_item.added")
				t.ended(id)
			}},
	}
}

func (t *trial) stored(id string) resource {
	a := t.get("/responses/" + id)
	a.isJSON(t)
	return t.resource(a.body)
}

func (t *trial) ended(id string) resource {
	ctx, cancel := context.WithTimeout(t.ctx, 2*turnLimit)
	defer cancel()
	for {
		r := t.stored(id)
		if !slices.Contains([]string{"queued", "in_progress"}, r.str("status")) {
			return r
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.demand(false, "response %s is still %s: %w", id, r.str("status"), ctx.Err())
		}
	}
}

func getStored(t *trial) {
	r := t.completes(`{"input":"Say hello."}`)
	got := t.stored(r.str("id"))
	t.expect(equal(map[string]any(got), map[string]any(r)), "POST answered %v and GET %v", r, got)
}

func getNotStored(t *trial) {
	r := t.completes(`{"input":"Say hello.","store":false}`)
	for _, id := range []string{r.str("id"), "resp_conformance_missing"} {
		t.fails(t.get("/responses/"+id), http.StatusNotFound)
	}
}

func deleteStored(t *trial) {
	r := t.completes(`{"input":"Say hello."}`)
	path := "/responses/" + r.str("id")
	var gone struct {
		ID      string `json:"id"`
		Deleted bool   `json:"deleted"`
	}
	t.do(http.MethodDelete, path, nil).into(t, &gone)
	t.expect(gone.Deleted && gone.ID == r.str("id"), "DELETE answered %+v", gone)
	t.fails(t.get(path), http.StatusNotFound)
	t.fails(t.post(t.request(whichWord, quote(r.str("id")))), http.StatusNotFound)
}

func inputItems(t *trial) {
	r := t.completes(`{"input":[{"role":"user","content":"one"},{"role":"assistant","content":"two"},` +
		`{"role":"user","content":"three"}]}`)
	type page struct {
		Object  string           `json:"object"`
		Data    []map[string]any `json:"data"`
		FirstID string           `json:"first_id"`
		LastID  string           `json:"last_id"`
		HasMore bool             `json:"has_more"`
	}
	list := func(query string) (p page) {
		t.get("/responses/"+r.str("id")+"/input_items"+query).into(t, &p)
		t.demand(p.Object == "list", "%s answered %+v", query, p)
		return p
	}
	all := list("?order=asc")
	t.demand(len(all.Data) == 3 && !all.HasMore && all.FirstID == all.Data[0]["id"] && all.LastID == all.Data[2]["id"],
		"the list is %+v", all)
	down := list("?limit=1")
	t.expect(len(down.Data) == 1 && down.HasMore && down.LastID == all.LastID, "the newest item is %+v, want %s", down,
		all.LastID)
	rest := list("?limit=2&after=" + down.LastID)
	t.expect(len(rest.Data) == 2 && !rest.HasMore && rest.LastID == all.FirstID, "the second page is %+v", rest)
}

func replay(t *trial) {
	r, events := t.streamed(`{"input":"Count from 1 to 5.","stream":true}`)
	_, second := t.checkStream(t.get("/responses/"+r.str("id")+"?stream=true"), stream.SSE, &Checker{})
	t.expect(bytes.Equal(bytes.Join(events, nil), bytes.Join(second, nil)), "the replay has other bytes")
	tail := t.tail(r.str("id"), 3)
	t.expect(bytes.Equal(bytes.Join(events[4:], nil), bytes.Join(tail, nil)), "the tail has other bytes")
}

// tail reads the events of a response after a sequence number.
func (t *trial) tail(id string, after int64) [][]byte {
	a := t.get(fmt.Sprintf("/responses/%s?stream=true&starting_after=%d", id, after))
	t.demand(a.status == http.StatusOK, "the tail was answered with %d", a.status)
	return t.collect(a.body, stream.SSE)
}

// backgroundPoll takes the acknowledgement of an answer that takes long: a short one may have ended before it is read.
func backgroundPoll(t *trial) {
	long := t.created(`{%s,"background":true}`, slowly)
	status := long.str("status")
	t.expect((status == "queued" || status == "in_progress") && long["background"] == true,
		"the acknowledgement is %q, background %v", status, long["background"])
	t.do(http.MethodPost, "/responses/"+long.str("id")+"/cancel", nil)
	r := t.created(`{"input":"Say hello.","background":true}`)
	t.completed(t.ended(r.str("id")))
}

func backgroundResume(t *trial) {
	id, last := t.readUntil(t.request(`{"input":"Count from 1 to 5.","background":true,"stream":true}`),
		"response.output_item.added")
	for i, data := range t.tail(id, last) {
		var ev struct {
			Sequence int64 `json:"sequence_number"`
		}
		t.must(json.Unmarshal(data, &ev))
		t.demand(ev.Sequence == last+1+int64(i), "event %d after %d has number %d", i, last, ev.Sequence)
	}
	t.completed(t.ended(id))
}

func backgroundCancel(t *trial) {
	id := t.created(`{%s,"background":true}`, slowly).str("id")
	for range 2 {
		a := t.do(http.MethodPost, "/responses/"+id+"/cancel", nil)
		a.isJSON(t)
		status := t.resource(a.body).str("status")
		t.expect(status == "cancelled", "the cancelled response is %q", status)
	}
	status := t.stored(id).str("status")
	t.expect(status == "cancelled", "the stored response is %q", status)
}

func inputTokens(t *trial) {
	count := func(text string) int64 {
		var got struct {
			Object string `json:"object"`
			Tokens int64  `json:"input_tokens"`
		}
		t.do(http.MethodPost, "/responses/input_tokens", t.request(`{"input":%s}`, quote(text))).into(t, &got)
		t.expect(got.Object == "response.input_tokens" && got.Tokens > 0, "answered %+v", got)
		return got.Tokens
	}
	short, long := count("one"), count("one two three four five six seven eight nine ten")
	t.expect(short < long, "%d tokens for one word and %d for ten", short, long)
}

func models(t *trial) {
	var list struct {
		Object string `json:"object"`
		Data   []struct {
			ID     string `json:"id"`
			Object string `json:"object"`
		} `json:"data"`
	}
	t.get("/models").into(t, &list)
	t.expect(list.Object == "list" && len(list.Data) > 0, "answered %+v", list)
	for _, m := range list.Data {
		t.expect(m.ID != "" && m.Object == "model", "a model is %+v", m)
	}
}

const runCommand = `"input":"Run the command: echo conformance"`

func extensionCases() []Case {
	return []Case{
		{"extensions/hidden", Extension, "what the server does itself is not on the standard stream", hidden},
		{"extensions/tool calls", Extension, "a request that asks sees the server's own tool calls", toolCalls},
		{"extensions/idempotency key", Extension, "a request that is sent again with its key is the same turn",
			idempotent},
		{"extensions/round trip", Extension, "tool calls are accepted back as input", toolCallsBack},
	}
}

func hidden(t *trial) {
	r, events := t.streamed(`{%s,"stream":true}`, runCommand)
	t.completed(r)
	t.expect(!bytes.Contains(bytes.Join(events, nil), []byte(`"holon:`)), "an extension is on the stream")
	t.expect(r.first("function_call") == nil, "the server's own call came out as a function_call")
}

// shown runs the command with its calls shown and returns the response.
func (t *trial) shown(extra string) resource {
	a := t.post(t.request(`{%s,"include":["holon:tool_calls"],"stream":true%s}`, runCommand, extra))
	r, _ := t.checkStream(a, stream.SSE, &Checker{Extensions: true})
	t.demand(r.first("holon:tool_call") != nil, "no tool call was shown")
	return r
}

func toolCalls(t *trial) {
	r := t.shown("")
	t.completed(r)
	call := r.first("holon:tool_call")
	output, _ := call["output"].(string)
	t.expect(call["status"] == "completed" && call["call_id"] != nil && call["name"] != nil, "the call is %v", call)
	t.expect(strings.Contains(output, "conformance"), "its output is %q", output)
}

func toolCallsBack(t *trial) {
	r := t.shown(`,"store":false`)
	input := append(user("Run the command: echo conformance"), r["output"].([]any)...)
	input = append(input, user("Say hello.")...)
	t.completes(`{"store":false,"input":%s}`, encode(input))
}

func idempotent(t *trial) {
	key := fmt.Sprintf("conformance-%d", time.Now().UnixNano())
	send := func(input string) answer {
		return t.post(t.request(`{"input":%s}`, quote(input)), "Idempotency-Key", key)
	}
	first, again := send("Say hello."), send("Say hello.")
	t.expect(first.status == http.StatusOK && bytes.Equal(first.body, again.body),
		"answered %d: %.300s, and then %d: %.300s", first.status, first.body, again.status, again.body)
	t.fails(send("Say something else."), http.StatusConflict)
}
