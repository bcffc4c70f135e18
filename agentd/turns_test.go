package agentd_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holon/agentd"
	"holon/agentd/config"
	"holon/responses"
	"holon/test/expect"
)

func TestSameTurnIDIsTheSameTurn(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("hello", hello)
	body := `{"model":"` + ref + `","input":"hi","holon":{"turn_id":"turn_a"}}`
	first := h.post(body).response(t)
	if again := h.post(body).response(t); again.ID != first.ID {
		t.Errorf("the same request gave %s and %s", first.ID, again.ID)
	}
	other := h.post(strings.Replace(body, "hi", "ho", 1))
	other.refused(t, http.StatusConflict, responses.CodeTurnConflict, "holon.turn_id")
	expect.NoError(t, h.stop())
	h2 := startIn(t, h.dir) // the answer survives the process
	if again := h2.post(body).response(t); again.ID != first.ID {
		t.Errorf("after a restart the same request gave %s and %s", first.ID, again.ID)
	}
	next := h2.post(`{"model":"` + ref + `","input":"hi","previous_response_id":"` + first.ID + `"}`).response(t)
	if next.PreviousResponseID == nil || *next.PreviousResponseID != first.ID {
		t.Errorf("after a restart %s continues %v", next.ID, next.PreviousResponseID)
	}
}

// A client that lets the server choose finds its turn, and a server has defaults of its own.
func TestPlaceOfTheTurn(t *testing.T) {
	t.Parallel()
	h := start(t, func(cfg *config.Config, _ *agentd.Parts) {
		cfg.Turns.Isolation, cfg.Turns.ShowToolCalls = "copy", true
	})
	ref := h.scenario("call", "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: pwd}}]\n  - text: ok\n")
	begun := h.post(`{"model":"` + ref + `","input":"hi","background":true}`)
	id, resp := begun.header.Get("X-Holon-Turn-Id"), begun.response(t)
	record := h.do(http.MethodGet, "/v1/turns/"+resp.ID, "")
	expect.Contains(t, "the turn of the response", string(record.body), id)
	stream := string(h.do(http.MethodGet, "/v1/responses/"+resp.ID+"?stream=true", "").body)
	for _, part := range []string{`"turn_id":"` + id + `"`, `"output_dir":"` + h.cfg.Dirs.Output + `/turns/` + id + `"`,
		`"type":"holon:tool_call"`, "/.agentd-turns/"} {
		expect.Contains(t, "the stream", stream, part)
	}
	own := h.post(`{"model":"` + ref + `","input":"hi","background":true,"holon":{"isolation":"none"}}`).response(t)
	stream = string(h.do(http.MethodGet, "/v1/responses/"+own.ID+"?stream=true", "").body)
	if strings.Contains(stream, "/.agentd-turns/") || !strings.Contains(stream, "holon:tool_call") {
		t.Error("the isolation of the request does not count")
	}
}

// Responses name no path of the server that its clients need not know.
func TestShownOutputDir(t *testing.T) {
	t.Parallel()
	h := start(t, func(cfg *config.Config, _ *agentd.Parts) { cfg.Dirs.Shown = "/out" })
	resp := h.post(`{"model":"` + h.scenario("hello", hello) + `","input":"hi","holon":{"turn_id":"turn_a"}}`).response(t)
	expect.Equal(t, "directory", resp.Holon.OutputDir, "/out/turns/turn_a")
	stored := h.do(http.MethodGet, "/v1/responses/"+resp.ID+"?stream=true", "")
	if strings.Contains(string(stored.body), h.cfg.Dirs.Output) {
		t.Errorf("the stream names %s: %s", h.cfg.Dirs.Output, stored.body)
	}
}

func TestOutputDirOfTheCaller(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("hello", hello)
	body := `{"model":"` + ref + `","input":"hi","holon":{"turn_id":"%s","output_dir":%s}}`
	dir := filepath.Join(h.cfg.Dirs.Output, "mine", "deep")
	first := h.post(fmt.Sprintf(body, "turn_a", quote(dir))).response(t)
	if _, err := os.Stat(filepath.Join(dir, "turn.json")); err != nil {
		t.Error(err)
	}
	if again := h.post(fmt.Sprintf(body, "turn_a", quote(dir))).response(t); again.ID != first.ID {
		t.Errorf("the same request gave %s and %s", first.ID, again.ID)
	}
	// Another turn is refused there, again and again, and does not become an alias of the first.
	for range 2 {
		if e := h.post(fmt.Sprintf(body, "turn_b", quote(dir))).failure(t); e.Code != responses.CodeInvalidValue ||
			e.Param != "holon.output_dir" {
			t.Errorf("a second turn in one directory: %v", e)
		}
	}
	if e := h.do(http.MethodGet, "/turns/turn_b", "").failure(t); e.Code != responses.CodeTurnNotFound {
		t.Errorf("the refused turn: %v", e)
	}
	second := h.post(`{"model":"` + ref + `","input":"hi","holon":{"turn_id":"turn_b"}}`).response(t)
	if again := h.post(`{"model":"` + ref +
		`","input":"hi","holon":{"turn_id":"turn_b"}}`).response(t); again.ID != second.ID {
		t.Errorf("the same request gave %s and %s", second.ID, again.ID)
	}
	for _, id := range []string{"turn_a", "turn_b"} {
		if a := h.do(http.MethodGet, "/turns/"+id, ""); a.status != http.StatusOK ||
			!strings.Contains(string(a.body), id) {
			t.Errorf("%s: %d %s", id, a.status, a.body)
		}
	}
}

func TestQueue(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.Turns.Concurrency, c.Turns.QueueLimit = 1, 1 })
	first := h.later(t.Context(), `{"input":"1"}`)
	h.gate.wait(t, 1)
	second := h.later(t.Context(), `{"input":"2","holon":{"turn_id":"turn_2"}}`)
	eventually(t, "the second turn waits", func() bool { return h.health().QueuedTurns == 1 })
	third := h.post(`{"input":"3"}`)
	if e := third.failure(t); e.Code != responses.CodeQueueFull || third.status != http.StatusTooManyRequests ||
		e.Hint == "" {
		t.Errorf("the third turn: %+v, %d %.300s", e, third.status, third.body)
	}
	h.gate.release <- struct{}{}
	if resp := get(t, first).response(t); resp.OutputText() != "Working. Done." {
		t.Errorf("the first turn says %q", resp.OutputText())
	}
	h.gate.wait(t, 1)
	h.gate.release <- struct{}{}
	if resp := get(t, second).response(t); resp.Status != responses.StatusCompleted {
		t.Errorf("the second turn is %s", resp.Status)
	}
}

// A session's turns run one after the other, and at the same time as those of other sessions.
func TestSessions(t *testing.T) {
	t.Parallel()
	h := start(t)
	turn := func(session, id string) <-chan answer {
		return h.later(t.Context(), fmt.Sprintf(`{"input":"go","holon":{"session_id":%q,"turn_id":%q}}`, session, id))
	}
	a1 := turn("a", "turn_a1")
	h.gate.wait(t, 1)
	a2 := turn("a", "turn_a2")
	eventually(t, "the session's second turn waits", func() bool { return h.health().QueuedTurns == 1 })
	b1 := turn("b", "turn_b1")
	h.gate.wait(t, 1)
	if got := h.health(); got.ActiveTurns != 2 || got.QueuedTurns != 1 {
		t.Errorf("%d run and %d wait, want 2 and 1", got.ActiveTurns, got.QueuedTurns)
	}
	if rec := h.do(http.MethodGet, "/turns/turn_a2", ""); !strings.Contains(string(rec.body), `"queued"`) {
		t.Errorf("the waiting turn: %s", rec.body)
	}
	close(h.gate.release)
	for _, done := range []<-chan answer{a1, a2, b1} {
		if resp := get(t, done).response(t); resp.Status != responses.StatusCompleted {
			t.Errorf("%s is %s", resp.ID, resp.Status)
		}
	}
	if one, two := h.record("turn_a1"),
		h.record("turn_a2"); two.StartedAt.Sub(one.CreatedAt) < 0 || two.SessionID != "a" {
		t.Errorf("the second turn started at %s, the first came at %s", two.StartedAt, one.CreatedAt)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	h := start(t, one)
	running := h.later(t.Context(), `{"input":"go","stream":true,"holon":{"turn_id":"turn_a"}}`)
	h.gate.wait(t, 1)
	waiting := h.later(t.Context(), `{"input":"go","holon":{"turn_id":"turn_b"}}`)
	eventually(t, "the second turn waits", func() bool { return h.health().QueuedTurns == 1 })
	for _, id := range []string{"turn_b", "turn_a"} {
		h.do(http.MethodGet, "/turns/"+id, "") // answers when the turn is acknowledged
		resp := h.record(id).ResponseID
		eventually(t, "the turn is acknowledged", func() bool {
			return h.do(http.MethodGet, "/responses/"+resp, "").status == http.StatusOK
		})
		if got := h.do(http.MethodGet, "/responses/"+resp, "").response(t); got.Status.Terminal() || got.ID != resp {
			t.Errorf("before: %s is %s", id, got.Status)
		}
		got := h.do(http.MethodPost, "/responses/"+resp+"/cancel", "").response(t)
		switch {
		case got.Status != responses.StatusCancelled:
			t.Errorf("%.120q: got.Status = %q, want %q", id, got.Status, responses.StatusCancelled)
		case got.Error == nil:
			t.Errorf("%.120q: got.Error = nil, want a value", id)
		case got.Error.Code != responses.CodeCancelled:
			t.Errorf("%.120q: got.Error.Code = %q, want %q", id, got.Error.Code, responses.CodeCancelled)
		}
		if again := h.do(http.MethodPost, "/responses/"+resp+"/cancel",
			"").response(t); again.Status != responses.StatusCancelled {
			t.Errorf("again: %s is %s", id, again.Status)
		}
	}
	if resp := get(t, waiting).response(t); resp.Status != responses.StatusCancelled || len(resp.Output) != 0 {
		t.Errorf("the waiting turn: %s with %d items", resp.Status, len(resp.Output))
	}
	if body := get(t, running).body; !strings.Contains(string(body), `"Working."`) ||
		!strings.Contains(string(body), responses.EventFailed) {
		t.Errorf("the running turn's stream: %s", body)
	}
	if e := h.do(http.MethodPost, "/responses/resp_none/cancel", "").failure(t); e.Code != responses.CodeNotFound {
		t.Errorf("cancel of nothing: %v", e)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	h := start(t)
	loop := h.scenario("loop", "rounds:\n  - id: again\n    calls: [{tool: ExecCommand, arguments: {cmd: "+
		"'true'}}]\n    goto: again\n")
	resp := h.post(`{"model":"` + loop +
		`","input":"go","holon":{"turn_id":"turn_a","limits":{"max_rounds":3}}}`).response(t)
	if resp.Status != responses.StatusIncomplete || resp.IncompleteDetails.Reason != responses.ReasonMaxRounds ||
		h.record("turn_a").Rounds != 3 {
		t.Errorf("rounds: %+v", resp)
	}
	resp = h.post(`{"input":"go","holon":{"turn_id":"turn_b","limits":{"timeout_ms":50}}}`).response(t)
	if resp.Status != responses.StatusIncomplete || resp.IncompleteDetails.Reason != responses.ReasonTimeout {
		t.Errorf("time: %s, %+v", resp.Status, resp.IncompleteDetails)
	}
	if rec := h.record("turn_b"); rec.IncompleteReason == nil || *rec.IncompleteReason != responses.ReasonTimeout {
		t.Errorf("the record is %+v", rec)
	}
	sleep := h.scenario("sleep", "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: 'sleep 600'}}]\n  - "+
		"text: Never.\n")
	resp = h.post(`{"model":"` + sleep +
		`","input":"go","holon":{"turn_id":"turn_c","limits":{"timeout_ms":300}}}`).response(t)
	if resp.Status != responses.StatusIncomplete || resp.IncompleteDetails.Reason != responses.ReasonTimeout {
		t.Errorf("time of a command: %s, %+v", resp.Status, resp.IncompleteDetails)
	}
	resp = h.post(`{"model":"` + loop + `","input":"go","max_tool_calls":2,"holon":{"turn_id":"turn_d"}}`).response(t)
	if resp.Status != responses.StatusIncomplete || resp.IncompleteDetails.Reason != responses.ReasonMaxToolCalls ||
		h.record("turn_d").ToolCalls.Total != 2 {
		t.Errorf("calls: %+v", resp)
	}
}

// A turn that leaves too much output ends between rounds, or in the middle of a
// command, and says what it had to say until then.
func TestOutputLimit(t *testing.T) {
	t.Parallel()
	h := start(t)
	for name, command := range map[string]string{"round": "yes | head -c 300000",
		"command": "yes | head -c 300000; sleep 600"} {
		model := h.scenario(name, "rounds:\n  - id: again\n    text: Begun.\n    calls: [{tool: ExecCommand, "+
			"arguments: {cmd: '"+command+"', yield_time_ms: 900000}}]\n    goto: again\n")
		resp := h.post(`{"model":"` + model + `","input":"go","holon":{"turn_id":"turn_` + name +
			`","limits":{"max_output_bytes":100000}}}`).response(t)
		if resp.Status != responses.StatusIncomplete ||
			resp.IncompleteDetails.Reason != responses.ReasonMaxOutputBytes {
			t.Fatalf("%s: %s, %+v", name, resp.Status, resp.IncompleteDetails)
		}
		rec := h.record("turn_" + name)
		if rec.IncompleteReason == nil || *rec.IncompleteReason != responses.ReasonMaxOutputBytes ||
			rec.Rounds != 1 || rec.ToolCalls.Total != 1 {
			t.Errorf("%s: %+v", name, rec)
		}
		if len(resp.Output) == 0 || resp.OutputText() != "" && resp.OutputText() != "Begun." {
			t.Errorf("%s: the answer so far is %q in %d items", name, resp.OutputText(), len(resp.Output))
		}
	}
	if e := h.post(`{"input":"go","holon":{"limits":{"max_output_bytes":-1}}}`).failure(t); e.Param != "holon.limits.max_output_bytes" {
		t.Errorf("a negative limit: %+v", e)
	}
}

// The time that others take is not counted against a turn that waits for them.
func TestTimeInTheQueueIsNotCounted(t *testing.T) {
	t.Parallel()
	h := start(t, one)
	h.begin(`{"input":"go","background":true}`)
	const limit = 10 * time.Minute
	waiting := h.post(fmt.Sprintf(`{"input":"go","background":true,"holon":{"limits":{"timeout_ms":%d}}}`,
		limit.Milliseconds())).response(t)
	if waiting.Status != responses.StatusQueued {
		t.Fatalf("the second turn is %s, want %s", waiting.Status, responses.StatusQueued)
	}
	left := time.Now() // not before this does the second turn leave the queue
	h.gate.release <- struct{}{}
	h.gate.wait(t, 1)
	deadline := h.gate.deadline.Load()
	h.gate.release <- struct{}{}
	if deadline == nil {
		t.Fatal("the second turn has no deadline")
	}
	if earliest := left.Add(limit); deadline.Before(earliest) {
		t.Errorf("the deadline is %s, want none before %s: the wait was counted", deadline, earliest)
	}
	var last responses.Response
	eventually(t, "the second turn ends", func() bool {
		last = *h.fetch(waiting.ID)
		return last.Status.Terminal()
	})
	expect.Equal(t, "the second turn", last.Status, responses.StatusCompleted)
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	t.Run("a turn is given its grace", func(t *testing.T) {
		h := start(t, func(c *config.Config, _ *agentd.Parts) { c.Turns.Grace = patience })
		turn := h.later(t.Context(), `{"input":"go","stream":true,"holon":{"turn_id":"turn_a"}}`)
		h.gate.wait(t, 1)
		if a := h.do(http.MethodPost, "/shutdown", ""); a.status != http.StatusAccepted {
			t.Errorf("shutdown: %d %s", a.status, a.body)
		}
		eventually(t, "the server drains", func() bool { return h.health().Status == "draining" })
		late := h.post(`{"input":"go"}`)
		late.refused(t, http.StatusServiceUnavailable, responses.CodeDraining)
		close(h.gate.release)
		if body := get(t, turn).body; !strings.Contains(string(body), responses.EventCompleted) {
			t.Errorf("the turn's stream: %s", body)
		}
		expect.NoError(t, h.stop())
		if _, err := os.Lstat(h.cfg.Server.Socket); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket: %v", err)
		}
	})
	t.Run("and ended after it", func(t *testing.T) {
		h := start(t, func(c *config.Config, _ *agentd.Parts) {
			c.Turns.Grace, c.Turns.Concurrency = time.Millisecond, 1
		})
		running := h.later(t.Context(), `{"input":"go","stream":true,"holon":{"turn_id":"turn_a"}}`)
		h.gate.wait(t, 1)
		queued := h.later(t.Context(), `{"input":"go","holon":{"turn_id":"turn_b"}}`)
		eventually(t, "the second turn waits", func() bool { return h.health().QueuedTurns == 1 })
		expect.NoError(t, h.stop())
		get(t, running)
		get(t, queued)
		for _, id := range []string{"turn_a", "turn_b"} {
			if rec := h.record(id); rec.Status != responses.StatusIncomplete ||
				*rec.IncompleteReason != responses.ReasonShutdown {
				t.Errorf("%s is %s, %v", id, rec.Status, rec.IncompleteReason)
			}
		}
	})
}

// Nothing of many turns stays open.
func TestNoDescriptorIsLeft(t *testing.T) {
	open := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skipf("descriptors cannot be counted: %v", err)
		}
		return len(fds)
	}
	h := start(t)
	ref := h.scenario("work", "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: echo hi}}]\n  - text: Done.\n")
	run := func(n int) {
		for range n {
			h.post(`{"model":"` + ref + `","input":"go","stream":true}`)
			h.post(`{"model":"` + ref + `","input":"go","store":false}`)
			h.post(`{"model":"openai/gpt","input":"go"}`)
			h.post(`{"input":"go","holon":{"output_dir":"/elsewhere"}}`)
			h.post(`{"model":"` + ref + `","input":"go","holon":{"turn_id":"turn_same"}}`)
		}
	}
	run(2)
	before := open()
	run(10)
	eventually(t, fmt.Sprintf("no more than %d descriptors are open", before), func() bool { return open() <= before })
}

// one lets a single turn run at a time.
func one(c *config.Config, _ *agentd.Parts) { c.Turns.Concurrency = 1 }
