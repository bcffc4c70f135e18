package agentd_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/turns"
	"holon/test/agentclient"
	"holon/test/expect"
)

// begin starts a turn in the background that waits at the gate.
func (h *harness) begin(body string) *responses.Response {
	h.t.Helper()
	a := h.post(body)
	if a.status != http.StatusOK || a.header.Get("X-Should-Retry") != "false" {
		h.t.Fatalf("%d, X-Should-Retry %q: %s", a.status, a.header.Get("X-Should-Retry"), a.body)
	}
	h.gate.wait(h.t, 1)
	return a.response(h.t)
}

func (h *harness) fetch(id string) *responses.Response {
	h.t.Helper()
	return h.do(http.MethodGet, "/responses/"+id, "").response(h.t)
}

// A client gets the events that it missed later, byte for byte.
func TestResumeInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{"text/event-stream", "application/x-ndjson"} {
		h := start(t)
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agentd/responses",
			strings.NewReader(`{"input":"go","background":true,"stream":true,"holon":{"turn_id":"turn_a"}}`))
		expect.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", accept)
		resp, err := h.http.Do(req)
		expect.NoError(t, err)
		var heard bytes.Buffer
		var last responses.Event
		in := bufio.NewReader(io.TeeReader(resp.Body, &heard))
		for last.Type != responses.EventTextDelta {
			line, err := in.ReadBytes('\n')
			expect.NoError(t, err)
			if line = bytes.TrimPrefix(line, []byte("data: ")); line[0] == '{' {
				if last, err = responses.DecodeEvent(line); err != nil {
					t.Fatal(err)
				}
			}
		}
		leave()
		_ = resp.Body.Close()
		h.gate.wait(t, 1)
		id := h.record("turn_a").ResponseID
		rest := h.laterGet(fmt.Sprintf("/responses/%s?stream=true&starting_after=%d", id, last.SequenceNumber), accept)
		whole := h.laterGet("/responses/"+id+"?stream=true", accept)
		h.gate.release <- struct{}{}
		all := get(t, whole).body
		file := h.read("turn_a", turns.EventsFile)
		if accept == "text/event-stream" {
			if !bytes.HasSuffix(all, []byte("\n\ndata: [DONE]\n\n")) {
				t.Errorf("the stream ends with %.60q", all[max(0, len(all)-60):])
			}
			all = lines(all)
		}
		if !bytes.Equal(all, file) {
			t.Errorf("the whole stream is\n%s\nand the file\n%s", all, file)
		}
		tail := get(t, rest).body
		if accept == "text/event-stream" {
			tail = lines(tail)
		}
		if want := after(file, last.SequenceNumber); !bytes.Equal(tail, want) || len(tail) == 0 {
			t.Errorf("after event %d came\n%s\nwant\n%s", last.SequenceNumber, tail, want)
		}
	}
}

// laterGet fetches in the background.
func (h *harness) laterGet(path, accept string) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		a, err := h.try(h.t.Context(), http.MethodGet, path, "", "Accept", accept)
		if err != nil {
			a.body = []byte(err.Error())
		}
		done <- a
	}()
	return done
}

// after returns the lines behind the one numbered n.
func after(file []byte, n int64) []byte {
	for range n + 1 {
		_, file, _ = bytes.Cut(file, []byte{'\n'})
	}
	return file
}

func TestReplay(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("hello", hello)
	first := h.post(`{"model":"` + ref + `","input":"hi","stream":true,"holon":{"turn_id":"turn_a"}}`)
	id := h.record("turn_a").ResponseID
	path := "/v1/responses/" + id
	events := lines(first.body)
	count := bytes.Count(events, []byte{'\n'})
	check := func(what string, a answer, want []byte) {
		t.Helper()
		if a.status != http.StatusOK || !bytes.Equal(a.body, want) {
			t.Errorf("%s: %d\n%s\nwant\n%s", what, a.status, a.body, want)
		}
	}
	for what, query := range map[string]string{
		"all":        "?stream=true",
		"with noise": "?stream=1&include[]=a&include=b&include=c&include_obfuscation=true&colour=red",
	} {
		check(what, h.do(http.MethodGet, path+query, ""), first.body)
		check(what+", NDJSON", h.do(http.MethodGet, path+query, "", "Accept", "application/x-ndjson"), events)
	}
	check("asked for in the body", h.do(http.MethodGet, path, `{"stream":true,"include":["x"]}`, "Content-Type", ""),
		first.body)
	for n := range count + 3 {
		want := []byte("data: [DONE]\n\n")
		if n+1 < count {
			_, rest, _ := bytes.Cut(first.body, fmt.Appendf(nil, `"sequence_number":%d,`, n))
			_, want, _ = bytes.Cut(rest, []byte("\n\n"))
		}
		check(fmt.Sprintf("after %d", n), h.do(http.MethodGet, fmt.Sprintf("%s?stream=true&starting_after=%d", path, n),
			""), want)
		check(fmt.Sprintf("after %d, in the body", n),
			h.do(http.MethodGet, path, fmt.Sprintf(`{"stream":true,"starting_after":%d}`, n)), want)
	}
	if a := h.do(http.MethodGet, path+"?stream=false", `{"stream":true}`); a.response(t).ID != id {
		t.Errorf("the query does not outweigh the body: %.100s", a.body)
	}
}

func TestReplayRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("hello", hello)
	path := "/v1/responses/" + h.post(`{"model":"`+ref+`","input":"hi"}`).response(t).ID
	for _, bad := range []struct{ query, body, param string }{
		{"?stream=true&starting_after=-1", "", "starting_after"},
		{"?stream=true&starting_after=x", "", "starting_after"},
		{"?stream=true&starting_after=99999999999999999999", "", "starting_after"},
		{"?stream=true&starting_after=9223372036854775807", "", "starting_after"},
		{"?stream=maybe", "", "stream"}, {"", `{"stream":true,"starting_after":1.5}`, "starting_after"},
		{"", `{"stream":"yes"}`, "stream"}, {"", `[]`, ""},
		{"", strings.Repeat("[", 20000), ""}, {"?a=%zz", "", ""},
		{"?starting_after=4", `{"starting_after":-1}`, "starting_after"},
	} {
		if a := h.do(http.MethodGet, path+bad.query, bad.body); a.status != http.StatusBadRequest ||
			a.failure(t).Param != bad.param {
			t.Errorf("%v: %d %s", bad, a.status, a.body)
		}
	}
	unstored := h.post(`{"model":"` + ref + `","input":"hi","store":false}`).response(t)
	for _, other := range []string{"resp_none", unstored.ID, "..", "a%2Fb", "x.y"} {
		for _, query := range []string{"", "?stream=true", "/input_items"} {
			if a := h.do(http.MethodGet, "/responses/"+other+query, ""); a.status != http.StatusNotFound ||
				a.failure(t).Message == "" {
				t.Errorf("%s%s: %d %s", other, query, a.status, a.body)
			}
		}
	}
}

// A replay needs the events of its own turn. The turn's directory is the caller's,
// and commands can write there.
func TestReplayWithoutItsEvents(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("hello", hello)
	id := h.post(`{"model":"` + ref + `","input":"hi","holon":{"turn_id":"turn_a"}}`).response(t).ID
	path := "/v1/responses/" + id
	other := h.post(`{"model":"` + ref + `","input":"hi","store":false}`).response(t)
	foreign, err := os.ReadFile(h.file(h.only(other.ID), turns.JournalFile))
	if err == nil {
		err = os.WriteFile(h.file("turn_a", turns.JournalFile), foreign, 0o600)
	}
	expect.NoError(t, err)
	if a := h.do(http.MethodGet, path+"?stream=true", ""); a.status != http.StatusNotFound || a.failure(t).Hint == "" {
		t.Errorf("another turn's events: %d %.300s", a.status, a.body)
	}
	expect.NoError(t, os.RemoveAll(h.file("turn_a", "")))
	if a := h.do(http.MethodGet, path+"?stream=true", ""); a.status != http.StatusNotFound ||
		a.failure(t).Param != "stream" {
		t.Errorf("no events: %d %.300s", a.status, a.body)
	}
	if h.fetch(id).Status != responses.StatusCompleted {
		t.Error("without its events the response is not to be fetched")
	}
}

// only returns the turn that made the response.
func (h *harness) only(responseID string) string {
	h.t.Helper()
	dirs, err := os.ReadDir(h.file("", ""))
	expect.NoError(h.t, err)
	for _, d := range dirs {
		if h.record(d.Name()).ResponseID == responseID {
			return d.Name()
		}
	}
	h.t.Fatalf("no turn made %s", responseID)
	return ""
}

// A running response that is not stored cannot be fetched, but it can be ended.
func TestUnstoredWhileItRuns(t *testing.T) {
	t.Parallel()
	h := start(t)
	done := h.later(t.Context(), `{"input":"go","store":false,"holon":{"turn_id":"turn_a"}}`)
	h.gate.wait(t, 1)
	h.do(http.MethodGet, "/turns/turn_a", "") // returns once it is acknowledged, which the model does not wait for
	id := h.record("turn_a").ResponseID
	for _, path := range []string{"", "?stream=true", "/input_items"} {
		if a := h.do(http.MethodGet, "/responses/"+id+path, ""); a.status != http.StatusNotFound {
			t.Errorf("%q: %d %s", path, a.status, a.body)
		}
	}
	if got := h.do(http.MethodPost, "/responses/"+id+"/cancel",
		"").response(t); got.Status != responses.StatusCancelled {
		t.Errorf("it is %s", got.Status)
	}
	get(t, done)
}

// listedItems is a page of items as a client reads it.
type listedItems struct {
	Object  string  `json:"object"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore *bool   `json:"has_more"`
	Data    []struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Role    string `json:"role"`
		Content []struct{ Type, Text string }
	}
}

// inputItems reads a page of a response's input items, which are messages "word NN".
func (h *harness) inputItems(id, query string) (l listedItems, words []string) {
	t := h.t
	t.Helper()
	a := h.do(http.MethodGet, "/responses/"+id+"/input_items"+query, "")
	if err := json.Unmarshal(a.body, &l); err != nil || a.status != http.StatusOK {
		t.Fatalf("%s: %d %v %s", query, a.status, err, a.body)
	}
	if l.Object != "list" || l.HasMore == nil {
		t.Fatalf("%s: %s, want a list that says whether there is more", query, a.body)
	}
	for _, item := range l.Data {
		words = append(words, strings.TrimPrefix(item.Content[0].Text, "word "))
		if item.ID == "" || item.Type != "message" || item.Role != "user" || item.Content[0].Type != "input_text" {
			t.Errorf("%+v", item)
		}
	}
	if n := len(l.Data); n > 0 && (*l.FirstID != l.Data[0].ID || *l.LastID != l.Data[n-1].ID) {
		t.Errorf("%s: first %s, last %s; want %s and %s", query, *l.FirstID, *l.LastID, l.Data[0].ID, l.Data[n-1].ID)
	}
	return l, words
}

// paged reads all input items of a response in pages of 20.
func (h *harness) paged(id, order string) (words []string, pages int) {
	h.t.Helper()
	cursor := ""
	for more := true; more && pages < 5; pages++ {
		l, page := h.inputItems(id, "?limit=20"+order+cursor)
		if len(page) == 0 || len(page) > 20 {
			h.t.Fatalf("%s: page %d has %d items, want 1 to 20", order, pages, len(page))
		}
		words = append(words, page...)
		cursor, more = "&after="+*l.LastID, *l.HasMore
	}
	return words, pages
}

func TestInputItems(t *testing.T) {
	t.Parallel()
	h := start(t)
	var input, all []string
	for i := range 45 {
		all = append(all, fmt.Sprintf("%02d", i))
		input = append(input, fmt.Sprintf(`{"role":"user","content":"word %02d"}`, i))
	}
	newest := slices.Clone(all)
	slices.Reverse(newest)
	resp := h.begin(`{"input":[` + strings.Join(input, ",") + `],"background":true}`)
	whole := func(state string) {
		t.Helper()
		for order, want := range map[string][]string{"": newest, "&order=desc": newest, "&order=asc": all} {
			got, pages := h.paged(resp.ID, order)
			if !slices.Equal(got, want) {
				t.Errorf("%s, %q: the items are %v, want %v", state, order, got, want)
			}
			if pages != 3 {
				t.Errorf("%s, %q: there are %d pages, want 3", state, order, pages)
			}
		}
	}
	whole("running")
	running, _ := h.inputItems(resp.ID, "?limit=100&order=asc")
	h.gate.release <- struct{}{}
	eventually(t, "the response is complete", func() bool {
		return h.fetch(resp.ID).Status == responses.StatusCompleted
	})
	whole("completed")
	for what, page := range map[string]struct {
		query string
		want  []string
		more  bool
	}{
		"the default":      {"", newest[:20], true},
		"before the tenth": {"?order=asc&limit=3&before=" + running.Data[10].ID, all[7:10], true},
		"after the last":   {"?order=asc&after=" + running.Data[44].ID, nil, false},
	} {
		l, got := h.inputItems(resp.ID, page.query)
		if !slices.Equal(got, page.want) || *l.HasMore != page.more {
			t.Errorf("%s: %v, more %t; want %v, %t", what, got, *l.HasMore, page.want, page.more)
		}
		if hasIDs := l.FirstID != nil && l.LastID != nil; hasIDs != (page.want != nil) {
			t.Errorf("%s: first %v, last %v; want ids unless the page is empty", what, l.FirstID, l.LastID)
		}
	}
	for query, param := range map[string]string{"limit=0": "limit", "limit=101": "limit", "limit=x": "limit",
		"order=up": "order", "after=msg_none": "after", "before=msg_none": "before"} {
		a := h.do(http.MethodGet, "/responses/"+resp.ID+"/input_items?"+query, "")
		if e := a.failure(t); a.status != http.StatusBadRequest || e.Param != param {
			t.Errorf("%s: %d %+v, want 400 at %s", query, a.status, e, param)
		}
	}
}

// replayed returns the types of a response's events after the one numbered after.
func replayed(t *testing.T, c *agentclient.Client, id string, after int64) (types []string) {
	t.Helper()
	for ev, err := range c.Replay(t.Context(), id, after) {
		if err != nil {
			t.Fatalf("after %d: %v", after, err)
		}
		expect.Equal(t, "the number of the event", ev.SequenceNumber, after+1+int64(len(types)))
		types = append(types, ev.Type)
	}
	return types
}

// Our client does all that can be done with a stored response; test/clients has those of others.
func TestClientOnStoredResponses(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := agentclient.Unix(h.cfg.Server.Socket)
	defer c.Close()
	ctx := t.Context()
	begun, err := c.Background(ctx, responses.NewRequest("gate/thinker", responses.UserMessage("go")))
	if err != nil || begun.Status.Terminal() {
		t.Fatalf("%+v, %v", begun, err)
	}
	h.gate.wait(t, 1)
	eventually(t, "the output so far is shown", func() bool {
		now, err := c.GetResponse(ctx, begun.ID)
		expect.NoError(t, err)
		return !now.Status.Terminal() && len(now.Output) == 1
	})
	h.gate.release <- struct{}{}
	types := replayed(t, c, begun.ID, agentclient.FromStart)
	for after := range len(types) + 2 {
		got := replayed(t, c, begun.ID, int64(after))
		if want := types[min(after+1, len(types)):]; !slices.Equal(got, want) {
			t.Errorf("after %d came %v, want %v", after, got, want)
		}
	}
	if got, err := c.GetResponse(ctx, begun.ID); err != nil || got.OutputText() != "Working. Done." {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = c.GetResponse(ctx, "resp_missing")
	if e, ok := errors.AsType[*responses.Error](err); !ok || e.Code != responses.CodeNotFound {
		t.Errorf("of what is not stored: %v", err)
	}
}
