package answers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/stream"
	"holon/responses/turns"
	"holon/runner/agent/answers"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/conform"
	"holon/test/expect"
)

// field is a field of JSON that is a text.
func field(body []byte, name string) string {
	var all map[string]json.RawMessage
	var text string
	_ = json.Unmarshal(body, &all)
	_ = json.Unmarshal(all[name], &text)
	return text
}

// input is a request to the agent main.
func input(text, more string) string {
	return fmt.Sprintf(`{"model":"agent/main","input":%q%s}`, text, more)
}

// streamed checks the stream of a response, and returns it.
func (l *lab) streamed(data []byte) []byte {
	l.t.Helper()
	if err := conform.CheckStream(data, stream.SSE); err != nil {
		l.t.Errorf("%v in\n%s", err, data)
	}
	return data
}

// A turn of an agent is a response: streamed, waited for or looked at later, with the same events each time, and the
// next one goes on from it. The message says who spoke.
func TestATurnIsAResponse(t *testing.T) {
	l := start(t, `
turns:
  - rounds:
      - {text: "On it.", calls: [{tool: ExecCommand, arguments: {cmd: "true"}}]}
      - {text: "first"}
  - rounds: [{text: "second"}]
  - rounds: [{text: "third"}]
`)
	status, live := l.call("operator", "POST", "", input("one", `,"stream":true,"metadata":{"k":"v"}`))
	expect.Equal(t, "status", status, http.StatusOK)
	l.streamed(live)
	if !bytes.Contains(live, []byte("response.queued")) {
		t.Errorf("the stream has no response.queued:\n%s", live)
	}
	if bytes.Contains(live, []byte(`"background":true`)) {
		t.Errorf("the client asked for nothing in the background:\n%s", live)
	}
	first := responseOf(t, live)
	expect.Equal(t, "text", first.OutputText(), "first")
	expect.Equal(t, "metadata", first.Metadata["k"], "v")
	if first.Instructions != nil {
		t.Errorf("a client reads the agent's instructions: %q", *first.Instructions)
	}
	_, again := l.call("operator", "GET", "/"+first.ID+"?stream=true", "")
	expect.Equal(t, "the stream again", string(again), string(live))
	_, rest := l.call("operator", "GET", "/"+first.ID+"?stream=true&starting_after=2", "")
	if !bytes.HasSuffix(live, rest) || bytes.Contains(rest, []byte("response.in_progress")) ||
		!bytes.Contains(rest, []byte(`"sequence_number":3`)) {
		t.Errorf("the stream after 2 is\n%s", rest)
	}

	second := l.ask("app", "POST", "", input("two", ""))
	expect.Equal(t, "text", second.OutputText(), "second")
	third := l.ask("app", "POST", "", input("three", `,"previous_response_id":"`+second.ID+`"`))
	expect.Equal(t, "text", third.OutputText(), "third")
	expect.Equal(t, "previous", *third.PreviousResponseID, second.ID)
	l.refused("app", "POST", "", input("x", `,"previous_response_id":"`+second.ID+`"`), http.StatusConflict,
		responses.CodePreviousNotLast, "previous_response_id")

	for id, want := range map[string]ledger.Origin{
		first.ID:  {Kind: ledger.OriginOperator, ActorID: "operator"},
		second.ID: {Kind: ledger.OriginChannel, ChannelID: "http_open_responses", SenderID: "app"}} {
		m, err := ledger.Read(t.Context(), l.store, func(v ledger.View) (ledger.Message, error) {
			return v.Message(ledger.OfResponse(id))
		})
		expect.NoError(t, err)
		if m.Origin != want || m.Surface != "http_open_responses" || m.AdmissionContext != ledger.ControlAuthenticated {
			t.Errorf("the message is %+v", m)
		}
	}
	_, items := l.call("app", "GET", "/"+third.ID+"/input_items", "")
	if !bytes.Contains(items, []byte(`"text":"three"`)) || bytes.Contains(items, []byte("[message")) {
		t.Errorf("the input items are %s", items)
	}
	_, resumed := l.call("operator", "GET", "/"+first.ID+"?stream=true", "", "Last-Event-ID", "2")
	expect.Equal(t, "the stream after an event", string(resumed), string(rest))
	_, lines := l.call("operator", "GET", "/"+first.ID+"?stream=true", "", "Accept", stream.TypeNDJSON)
	expect.NoError(t, conform.CheckStream(lines, stream.NDJSON))
	l.call("app", "DELETE", "/"+third.ID, "")
	l.refused("app", "GET", "/"+third.ID, "", http.StatusNotFound, responses.CodeNotFound, "id")
}

// A response names no response of somebody else that the agent went on from, however it is read. Operators read on.
func TestPreviousOfOthers(t *testing.T) {
	l := start(t, `
turns:
  - rounds: [{text: "first"}]
  - rounds: [{text: "second"}]
  - rounds: [{chunks: ["third", "."]}]
  - rounds: [{text: "fourth"}]
`)
	l.ask("other", "POST", "", input("zero", `,"store":false`))
	second := l.ask("app", "POST", "", input("one", ""))
	if second.PreviousResponseID != nil {
		t.Errorf("app reads of %s", *second.PreviousResponseID)
	}
	own := l.ask("app", "POST", "", input("two", ""))
	if own.PreviousResponseID == nil || *own.PreviousResponseID != second.ID {
		t.Errorf("the response before is %v, want %s", own.PreviousResponseID, second.ID)
	}
	status, live := l.call("other", "POST", "", input("three", `,"stream":true`))
	expect.Equal(t, "status", status, http.StatusOK)
	l.streamed(live)
	last := responseOf(t, live)
	_, again := l.call("other", "GET", "/"+last.ID+"?stream=true", "")
	expect.Equal(t, "the stream again", string(again), string(live))
	_, rest := l.call("other", "GET", "/"+last.ID+"?stream=true&starting_after=1", "")
	_, stored := l.call("other", "GET", "/"+last.ID, "")
	for _, text := range [][]byte{live, rest, stored} {
		if bytes.Contains(text, []byte(`"previous_response_id":"`)) ||
			!bytes.Contains(text, []byte(`"previous_response_id":null`)) {
			t.Errorf("other reads\n%s", text)
		}
	}
	if seen := l.ask("operator", "POST", "", input("four", "")); seen.PreviousResponseID == nil ||
		*seen.PreviousResponseID != last.ID {
		t.Errorf("the operator reads of %v, want %s", seen.PreviousResponseID, last.ID)
	}
}

// A request that is sent again with its key has the response of the first, also when the agent has gone on since; another
// one with the key is a conflict.
func TestRepeatedRequest(t *testing.T) {
	l := start(t, `
turns:
  - rounds: [{text: "first"}]
  - rounds: [{text: "second"}]
  - rounds: [{text: "third"}]
`)
	post := func(body, key string) *responses.Response {
		t.Helper()
		status, data := l.call("app", "POST", "", body, "Idempotency-Key", key)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", body, status, data)
		}
		resp, err := responses.DecodeResponse(data)
		expect.NoError(t, err)
		return resp
	}
	first := post(input("one", ""), "k1")
	next := input("two", `,"previous_response_id":"`+first.ID+`"`)
	second := post(next, "k2")
	expect.Equal(t, "another key", second.OutputText(), "second")
	expect.Equal(t, "again", post(input("one", ""), "k1").ID, first.ID)
	expect.Equal(t, "again, of an earlier place", post(next, "k2").ID, second.ID)
	_, live := l.call("app", "POST", "", input("one", `,"stream":true`), "Idempotency-Key", "k1")
	expect.Equal(t, "as a stream", responseOf(t, l.streamed(live)).ID, first.ID)
	expect.Equal(t, "an operator's look", l.ask("operator", "GET", "/"+first.ID, "").ID, first.ID)
	expect.Equal(t, "without a key", l.ask("app", "POST", "", input("one", "")).OutputText(), "third")
	for _, body := range []string{input("other", ""), input("one", `,"background":true`)} {
		status, data := l.call("app", "POST", "", body, "Idempotency-Key", "k1")
		e := responses.DecodeEnvelope(status, data)
		if status != http.StatusConflict || e.Code != responses.CodeIdempotencyConflict || e.Param != "Idempotency-Key" {
			t.Errorf("%s: %d %s", body, status, data)
		}
	}
}

// The items of an input come in pages.
func TestInputItems(t *testing.T) {
	l := start(t, `rounds: [{text: here}]`)
	resp := l.ask("app", "POST", "", `{"model":"agent/main","input":[{"role":"user","content":"one"},`+
		`{"role":"user","content":"two"},{"role":"user","content":"three"}]}`)
	page := func(query, text string, more bool) string {
		t.Helper()
		_, data := l.call("app", "GET", "/"+resp.ID+"/input_items?limit=1&"+query, "")
		if !bytes.Contains(data, []byte(`"text":"`+text+`"`)) || !bytes.Contains(data,
			fmt.Appendf(nil, `"has_more":%t`, more)) {
			t.Errorf("%s: %s", query, data)
		}
		return field(data, "last_id")
	}
	page("after="+page("after="+page("order=asc", "one", true)+"&order=asc", "two", true)+"&order=asc", "three", false)
	page("", "three", true)
	for query, param := range map[string]string{"limit=0": "limit", "order=up": "order", "after=msg_x": "after"} {
		l.refused("app", "GET", "/"+resp.ID+"/input_items?"+query, "", http.StatusBadRequest, responses.CodeInvalidValue,
			param)
	}
}

// responseOf is the response at the end of a stream.
func responseOf(t *testing.T, sse []byte) *responses.Response {
	t.Helper()
	var resp *responses.Response
	for line := range bytes.Lines(sse) {
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: {"))
		if !ok {
			continue
		}
		ev, err := responses.DecodeEvent(append([]byte("{"), data...))
		expect.NoError(t, err)
		if ev.Response != nil {
			resp = ev.Response
		}
	}
	if resp == nil {
		t.Fatalf("there is no response in\n%s", sse)
	}
	return resp
}

// What a response waits for, and how it ends without a turn or in the middle of one, is shown: it is queued behind
// another, and one is cancelled in the queue and one in its turn.
func TestQueueAndCancel(t *testing.T) {
	l := start(t, `rounds: [{cases: [{when: {user: {contains: slow}}, delay: 1h, text: never}, {text: here}]}]`)
	running := l.ask("app", "POST", "", input("slow", `,"background":true`))
	l.untilStatus(running.ID, responses.StatusInProgress) // begun, and its first events are written
	waiting := l.ask("app", "POST", "", input("next", `,"background":true`))
	expect.Equal(t, "status behind it", l.ask("app", "GET", "/"+waiting.ID, "").Status, responses.StatusQueued)
	made := l.ask("app", "GET", "/"+running.ID, "")
	expect.Equal(t, "status of it", made.Status, responses.StatusInProgress)
	expect.Equal(t, "in the background", made.Background, true)
	l.refused("app", "DELETE", "/"+running.ID, "", http.StatusConflict, responses.CodeResponseInProgress, "id")
	for _, id := range []string{waiting.ID, running.ID, running.ID} {
		expect.Equal(t, "status", l.ask("app", "POST", "/"+id+"/cancel", "").Status, responses.StatusCancelled)
		_, data := l.call("app", "GET", "/"+id+"?stream=true", "")
		l.streamed(data)
	}
	expect.Equal(t, "text", l.ask("app", "POST", "", input("quick", "")).OutputText(), "here")
}

// A turn that is cut, by the end of the runtime or with its agentd, leaves its response with one end, which a client
// that comes back reads behind what it has; the message has no other turn.
func TestOneEndOfACutTurn(t *testing.T) {
	for name, cmd := range map[string]string{"shutdown": "sleep 3600", "agentd killed": "sleep 0.1; kill -9 $PPID"} {
		t.Run(name, func(t *testing.T) {
			l := start(t, `rounds: [{cases: [{when: {user: {contains: go on}}, text: again}, `+
				`{text: "On it.", calls: [{tool: ExecCommand, arguments: {cmd: "`+cmd+`"}}]}]}]`)
			id, got := l.read("work", "response.output_item.done")
			l.untilBegun(id)
			if name == "shutdown" {
				l.close()
				l.open()
			}
			_, all := l.call("app", "GET", "/"+id+"?stream=true", "")
			if l.streamed(all); !bytes.HasPrefix(all, got) {
				t.Errorf("the stream is\n%s\nand was before\n%s", all, got)
			}
			if s := l.ask("app", "GET", "/"+id, "").Status; s == responses.StatusCompleted || !s.Terminal() {
				t.Errorf("the response is %s", s)
			}
			l.ask("app", "POST", "", input("go on", ""))
			_, more := l.call("app", "GET", "/"+id+"?stream=true", "") // another agentd has looked at the turn since
			expect.Equal(t, "the stream after the next turn", string(more), string(all))
			made, err := ledger.Read(t.Context(), l.store, func(v ledger.View) ([]ledger.Turn, error) {
				return v.Turns("main", 10)
			})
			expect.NoError(t, err)
			expect.Equal(t, "turns", len(made), 2)
		})
	}
}

// A turn that was cut and whose files are gone, as a container takes them along that something removes, has an end all
// the same.
func TestEndOfATurnThatIsGone(t *testing.T) {
	l := start(t, `rounds: [{text: "On it.", calls: [{tool: ExecCommand, arguments: {cmd: "sleep 3600"}}]}]`)
	id, _ := l.read("work", "response.output_item.done")
	l.untilBegun(id)
	l.close()
	l.open()
	removed := 0
	expect.NoError(t, filepath.WalkDir(l.home.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == turns.EventsFile {
			removed++
			err = os.Remove(path)
		}
		return err
	}))
	expect.Equal(t, "files of events", removed, 1)
	after := l.ask("app", "GET", "/"+id, "")
	expect.Equal(t, "status", after.Status, responses.StatusFailed)
	expect.Equal(t, "code", after.Error.Code, responses.CodeInterrupted)
	_, all := l.call("app", "GET", "/"+id+"?stream=true", "")
	l.streamed(all)
}

// read streams a response as far as an event, and returns what came.
func (l *lab) read(text, upTo string) (id string, got []byte) {
	l.t.Helper()
	resp := l.begin(context.WithoutCancel(l.t.Context()), "app", "POST", "", input(text, `,"stream":true`))
	defer resp.Body.Close()
	for buf := make([]byte, 4096); !bytes.Contains(got, []byte(upTo)); {
		n, err := resp.Body.Read(buf)
		got = append(got, buf[:n]...)
		expect.NoError(l.t, err)
	}
	return resp.Header.Get("X-Response-Id"), got
}

// What an agent does not take is refused by its name, and what a caller may not know is not there.
func TestRefused(t *testing.T) {
	l := start(t, `rounds: [{text: here}]`)
	for more, param := range map[string]string{
		`"prompt":{"id":"p"}`: "prompt", `"conversation":"c"`: "conversation",
		`"instructions":"x"`: "instructions", `"temperature":1`: "temperature", `"top_p":1`: "top_p",
		`"reasoning":{"effort":"low"}`: "reasoning", `"holon":{"workspace":"/x"}`: "holon.workspace",
		`"holon":{"response_id":"resp_x"}`:                                                               "holon.response_id",
		`"input":[{"role":"assistant","content":"x"}]`:                                                   "input[0]",
		`"input":[{"role":"developer","content":"x"}]`:                                                   "input[0].role",
		`"tools":[{"type":"mcp","server_label":"x","server_url":"http://x","require_approval":"never"}]`: "tools",
	} {
		if !strings.HasPrefix(more, `"input"`) {
			more = `"input":"x",` + more
		}
		l.refused("operator", "POST", "", `{"model":"agent/main",`+more+`}`, http.StatusBadRequest,
			responses.CodeUnsupportedParameter, param)
	}
	l.refused("app", "POST", "", input(strings.Repeat("x", 1<<20+1), ""), http.StatusBadRequest,
		responses.CodeInvalidValue, "input")
	kept := l.ask("app", "POST", "", input("mine", ""))
	for _, token := range []string{"none", "nobody"} {
		l.refused(token, "POST", "", input("x", ""), http.StatusNotFound, responses.CodeModelNotFound, "model")
	}
	for _, path := range []string{"/" + kept.ID, "/resp_unknown", "/msg_x"} {
		l.refused("other", "GET", path, "", http.StatusNotFound, responses.CodeNotFound, "id")
	}
	l.refused("other", "POST", "", input("x", `,"previous_response_id":"`+kept.ID+`"`), http.StatusNotFound,
		responses.CodePreviousNotFound, "previous_response_id")
	expect.NoError(t, l.runtime.Scheduler().Stop(t.Context(), "main", "test"))
	e := l.refused("app", "POST", "", input("x", ""), http.StatusConflict, responses.CodeAgentStopped, "model")
	expect.Contains(t, "the hint", e.Hint, "holon agent start main")
}

// Private agents are no models, and each caller sees those that it may address.
func TestModels(t *testing.T) {
	l := start(t, `rounds: [{text: here}]`)
	for _, n := range []scheduler.NewAgent{{ID: "second"}, {ID: "hidden", Private: true}} {
		_, err := l.runtime.Scheduler().Create(t.Context(), n)
		expect.NoError(t, err)
	}
	a := answers.New(answers.Options{Store: l.store})
	for token, want := range map[string]string{"operator": "agent/main agent/second", "app": "agent/main", "none": ""} {
		list, err := a.Models(t.Context(), callers[token])
		expect.NoError(t, err)
		var ids []string
		for _, m := range list {
			ids = append(ids, m.ID)
		}
		expect.Equal(t, "models of "+token, strings.Join(ids, " "), want)
	}
}
