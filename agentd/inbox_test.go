package agentd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd"
	"holon/agentd/config"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// tell sends a message to a turn.
func (h *harness) tell(turnID, id, text string) answer {
	h.t.Helper()
	return h.do(http.MethodPost, "/v1/turns/"+turnID+"/input",
		fmt.Sprintf(`{"id":%s,"text":%s}`, quote(id), quote(text)))
}

// stands decodes how a message stands.
func (a answer) stands(t *testing.T) turns.Input {
	t.Helper()
	in, err := turns.DecodeInput(a.body)
	if err != nil || a.status != http.StatusOK {
		t.Fatalf("status %d, %v: %.300s", a.status, err, a.body)
	}
	return in
}

func (a answer) refused(t *testing.T, status int, code string, param ...string) {
	t.Helper()
	e := a.failure(t)
	if a.status != status || e.Code != code || len(param) > 0 && e.Param != param[0] ||
		a.header.Get("X-Should-Retry") == "" {
		t.Errorf("%s: %d %.300s, want %d %s at %q", a.asked, a.status, a.body, status, code, param)
	}
}

// A message that comes while the model answers is told in one more round. It is
// in the conversation, in the record and among the facts, and not on the stream.
func TestInput(t *testing.T) {
	t.Parallel()
	h := start(t)
	running := h.later(t.Context(), `{"input":"go","stream":true,"holon":{"turn_id":"turn_a"}}`)
	h.gate.wait(t, 1)
	want := turns.NewInput{ID: "in_1", Text: "the <other> one"}.Input()
	for range 2 { // the second time the answer was lost
		expect.Equal(t, "it stands at", h.tell("turn_a", "in_1", "the <other> one").stands(t), want)
	}
	h.tell("turn_a", "in_1", "another").refused(t, http.StatusConflict, responses.CodeInputConflict)
	h.gate.release <- struct{}{}
	h.gate.wait(t, 1)
	want.Inserted, want.Round = true, 2
	expect.Equal(t, "told, it stands at", h.tell("turn_a", "in_1", "the <other> one").stands(t), want)
	if diff := cmp.Diff([]turns.Input{want}, h.record("turn_a").Inputs); diff != "" {
		t.Errorf("turn.json of the running turn: %s", diff)
	}
	close(h.gate.release)
	stream := get(t, running).body
	if bytes.Contains(stream, []byte("other")) || bytes.Contains(stream, []byte("interjected")) {
		t.Errorf("the stream has it:\n%s", stream)
	}
	h.afterInput(want)
	expect.NoError(t, h.stop())
	startIn(t, h.dir).afterInput(want)
}

// afterInput checks what is left of the turn of TestInput.
func (h *harness) afterInput(want turns.Input) {
	t := h.t
	t.Helper()
	rec := h.record("turn_a")
	if rec.Status != responses.StatusCompleted || rec.Rounds != 2 || cmp.Diff([]turns.Input{want}, rec.Inputs) != "" {
		t.Errorf("%+v", rec)
	}
	expect.Equal(t, "after the end it stands at", h.tell("turn_a", "in_1", "the <other> one").stands(t), want)
	h.tell("turn_a", "in_1", "another").refused(t, http.StatusConflict, responses.CodeInputConflict)
	h.tell("turn_a", "in_2", "too late").refused(t, http.StatusConflict, responses.CodeTurnEnded)
	h.tell("turn_b", "in_1", "nobody").refused(t, http.StatusNotFound, responses.CodeTurnNotFound)
	facts := h.do(http.MethodGet, "/turns/turn_a/events", "").body
	accepted, inserted := bytes.Index(facts, []byte("holon.input.accepted")),
		bytes.Index(facts, []byte("holon.input.inserted"))
	if bytes.Count(facts, []byte("holon.input.")) != 2 || accepted < 0 || inserted < accepted ||
		bytes.Contains(facts, []byte("other")) {
		t.Errorf("%s, %+v, %+v", facts, accepted, inserted)
	}
	items := h.do(http.MethodGet, "/responses/"+rec.ResponseID+"/input_items", "").body
	if !bytes.Contains(items, []byte(`"go"`)) || bytes.Contains(items, []byte("other")) {
		t.Errorf("the request said %s", items)
	}
	trajectory, err := os.ReadFile(h.cfg.Dirs.State + "/responses/" + rec.ResponseID + ".ndjson")
	if err != nil || bytes.Count(trajectory, []byte(responses.PrefixInterjected)) != 1 {
		t.Errorf("the trajectory is\n%.9000s (%v)", trajectory, err)
	}
}

// A message that the next turn's model sees was told in the middle of the last.
func TestInputStaysInTheConversation(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("talk", `
turns:
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {cmd: 'touch here; until [ -e go ]; do sleep 0.02; done'}}]
      - expect: {said: {contains: hurry}}
        text: "I hurry"
  - rounds: [{text: "and then {{last_user}}"}]
`)
	running := h.later(t.Context(), `{"model":"`+ref+`","input":"go","holon":{"turn_id":"turn_a"}}`)
	eventually(t, "the command runs", func() bool {
		_, err := os.Stat(h.cfg.Dirs.Workspace + "/here")
		return err == nil
	})
	h.tell("turn_a", "in_1", "hurry up").stands(t)
	expect.NoError(t, os.WriteFile(h.cfg.Dirs.Workspace+"/go", nil, 0o600))
	first := get(t, running).response(t)
	expect.Equal(t, "it says", first.OutputText(), "I hurry")
	next := h.post(`{"model":"` + ref + `","input":"next","previous_response_id":"` + first.ID + `"}`).response(t)
	expect.Equal(t, "the next turn", next.OutputText(), "and then next")
}

func TestInputOfATurnThatIsCancelled(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.Turns.Concurrency = 1 })
	h.post(`{"input":"go","background":true,"holon":{"turn_id":"turn_a"}}`).response(t)
	h.gate.wait(t, 1)
	queued := h.post(`{"input":"go","background":true,"holon":{"turn_id":"turn_b"}}`).response(t)
	for _, turn := range []string{"turn_a", "turn_b"} { // running, and waiting for its place
		h.tell(turn, "in_1", "wait").stands(t)
		h.do(http.MethodPost, "/responses/"+h.record(turn).ResponseID+"/cancel", "").response(t)
		rec := h.record(turn)
		if len(rec.Inputs) != 1 || rec.Inputs[0].Inserted || rec.Status != responses.StatusCancelled {
			t.Errorf("%.120q: %+v", turn, rec)
		}
		h.tell(turn, "in_1", "wait").refused(t, http.StatusConflict, responses.CodeTurnEnded)
	}
	expect.Equal(t, "the second turn", queued.Status, responses.StatusQueued)
}

func TestInputRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.post(`{"input":"go","background":true,"holon":{"turn_id":"turn_a"}}`).response(t)
	h.gate.wait(t, 1)
	defer close(h.gate.release)
	for name, c := range map[string]struct {
		path, body string
		status     int
		code, at   string
	}{
		"no id":        {"turn_a", `{"text":"x"}`, 400, responses.CodeMissingParameter, "id"},
		"a path":       {"turn_a", `{"id":"../x","text":"x"}`, 400, responses.CodeInvalidValue, "id"},
		"no text":      {"turn_a", `{"id":"in_1"}`, 400, responses.CodeMissingParameter, "text"},
		"a blank text": {"turn_a", `{"id":"in_1","text":" \n"}`, 400, responses.CodeMissingParameter, "text"},
		"a null text":  {"turn_a", `{"id":"in_1","text":null}`, 400, responses.CodeMissingParameter, "text"},
		"another type": {"turn_a", `{"id":"in_1","text":7}`, 400, responses.CodeInvalidValue, "text"},
		"another key": {"turn_a", `{"id":"in_1","text":"x","role":"developer"}`, 400,
			responses.CodeUnsupportedParameter, "role"},
		"no JSON": {"turn_a", `{"id":`, 400, responses.CodeInvalidJSON, ""},
		"nothing": {"turn_a", ``, 400, responses.CodeMissingParameter, "id"},
		"too long": {"turn_a", `{"id":"in_1","text":"` + strings.Repeat("x", turns.MaxInputText+1) + `"}`, 400,
			responses.CodeInvalidValue, "text"},
		"far too long": {"turn_a", strings.Repeat(" ", 8*turns.MaxInputText), 413, responses.CodeRequestTooLarge, ""},
		"a bad turn":   {"turn.a", `{"id":"in_1","text":"x"}`, 400, responses.CodeInvalidValue, "turn_id"},
	} {
		t.Run(name, func(t *testing.T) {
			a := h.do(http.MethodPost, "/turns/"+c.path+"/input", c.body)
			a.refused(t, c.status, c.code, c.at)
		})
	}
	large := strings.Repeat("x", turns.MaxInputText)
	for i := range turns.MaxInputsBytes / turns.MaxInputText {
		h.tell("turn_a", fmt.Sprintf("in_%d", i), large).stands(t)
	}
	h.tell("turn_a", "in_more", "x").refused(t, http.StatusTooManyRequests, responses.CodeQueueFull)
	h.tell("turn_a", "in_0", large).stands(t) // it is there already
}

func TestInputIsCounted(t *testing.T) {
	t.Parallel()
	h := start(t)
	running := h.later(t.Context(), `{"input":"go","holon":{"turn_id":"turn_a"}}`)
	h.gate.wait(t, 1)
	for i := range turns.MaxInputs {
		h.tell("turn_a", fmt.Sprintf("in_%d", i), "x").stands(t)
	}
	h.tell("turn_a", "in_more", "x").refused(t, http.StatusTooManyRequests, responses.CodeQueueFull)
	close(h.gate.release)
	get(t, running).response(t)
	if rec := h.record("turn_a"); len(rec.Inputs) != turns.MaxInputs || rec.Inputs[0].ID != "in_0" ||
		!rec.Inputs[turns.MaxInputs-1].Inserted {
		t.Errorf("%+v", rec)
	}
}

// Whenever a message comes while a turn comes to its end, it is either refused or
// told: none is accepted and forgotten.
func TestInputAgainstTheEnd(t *testing.T) {
	t.Parallel()
	h := start(t)
	const senders, each = 3, 4
	rounds := 25
	if testing.Short() {
		rounds = 10
	}
	accepted, refused := 0, 0
	for n := 0; n < rounds || (accepted == 0 || refused == 0) && n < 100*rounds; n++ {
		id := fmt.Sprintf("turn_%d", n)
		// Which length of a turn lets its end meet the messages depends on the machine.
		ref := h.scenario(id, fmt.Sprintf("rounds: [{text: Hello., delay: %dus}]", 100*n))
		h.post(fmt.Sprintf(`{"model":%q,"input":"hi","background":true,"holon":{"turn_id":%q}}`, ref, id)).response(t)
		var all sync.WaitGroup
		got := make([][each]answer, senders)
		for i := range senders {
			all.Go(func() {
				for k := range each {
					got[i][k] = h.tell(id, fmt.Sprintf("in_%d_%d", i, k), "more")
				}
			})
		}
		all.Wait()
		eventually(t, "the turn ends", func() bool { return h.record(id).Status.Terminal() })
		rec := h.record(id)
		told := make(map[string]bool)
		for _, in := range rec.Inputs {
			told[in.ID] = in.Inserted
		}
		for i := range senders {
			for k, a := range got[i] {
				if a.status == http.StatusOK {
					accepted++
				} else {
					refused++
				}
				if in := fmt.Sprintf("in_%d_%d", i, k); (a.status == http.StatusOK) != told[in] ||
					a.status != http.StatusOK && a.status != http.StatusConflict {
					t.Errorf("%s of %s was answered %d, and the record says %+v", in, id, a.status, rec.Inputs)
				}
			}
		}
	}
	if accepted == 0 || refused == 0 {
		t.Errorf("%d accepted, %d refused: nothing came near the end", accepted, refused)
	}
}

// Each body that is accepted names a message by an id that is safe everywhere.
func FuzzInput(f *testing.F) {
	for _, body := range []string{`{"id":"in_1","text":"x"}`, `{"id":"in_1"}`, `[]`, `{"id":{}}`, "{\"text\":\"\xff\"}",
		`{"id":"a","text":"b"}{}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var said turns.NewInput
		if json.Unmarshal(body, &said) != nil || said.Check() != nil {
			return
		}
		if in := said.Input(); in.ID != said.ID || in.Inserted || responses.CheckID("id", in.ID) != nil ||
			len(in.Digest) != 64 {
			t.Errorf("%+v, %+v", in, said)
		}
	})
}
