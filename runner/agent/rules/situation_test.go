package rules_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"holon/runner/agent/rules"
	"holon/state/ledger"
	"holon/test/expect"
)

func wait(k ledger.WaitKind, s ledger.WaitStatus) *ledger.Wait {
	return &ledger.Wait{ID: "wait_1", Owner: ledger.OwnerAgent, Kind: k, Status: s, WaitingFor: "it",
		Wakes: rules.AnyWake()}
}

func held(state rules.WorkState, w *ledger.Wait) rules.Situation {
	return rules.Situation{Ended: true, Wait: w, Held: &rules.HeldWork{ID: "work_1", Objective: "it", State: state}}
}

func TestLifecycle(t *testing.T) {
	if l := (rules.Situation{AgentID: "a"}).Lifecycle(); l != (rules.Lifecycle{AcceptsMessages: true}) {
		t.Errorf("an agent that goes on: %+v", l)
	}
	removed := rules.Situation{AgentID: "a", Stopped: true, Archived: true}.Lifecycle()
	if hint := removed.OperatorHint; hint == "" || removed != (rules.Lifecycle{OperatorHint: hint}) {
		t.Errorf("an agent that was removed: %+v", removed)
	}
	l := rules.Situation{AgentID: "a", Stopped: true}.Lifecycle()
	if !l.ResumeRequired || !l.WakeNeedsResume || l.AcceptsMessages || l.ResumeCLIHint != "holon agent start a" ||
		l.ResumeControlPath != "/control/agents/a/control" {
		t.Errorf("a stopped agent: %+v", l)
	}
}

func message(k ledger.MessageKind) ledger.Message {
	trigger := map[ledger.MessageKind]ledger.TriggerKind{
		ledger.KindOperatorPrompt: ledger.TriggerOperatorInput, ledger.KindChannelEvent: ledger.TriggerExternalEvent,
		ledger.KindWebhookEvent: ledger.TriggerExternalEvent, ledger.KindCallbackEvent: ledger.TriggerExternalEvent,
		ledger.KindTimerTick: ledger.TriggerTimerFire, ledger.KindSystemTick: ledger.TriggerSystemTick,
		ledger.KindTaskResult: ledger.TriggerTaskResult, ledger.KindTaskStatus: ledger.TriggerTaskResult,
		ledger.KindControl: ledger.TriggerOperatorInput, ledger.KindBriefAck: ledger.TriggerInternalFollowup,
		ledger.KindBriefResult:      ledger.TriggerInternalFollowup,
		ledger.KindInternalFollowup: ledger.TriggerInternalFollowup,
	}
	return ledger.Message{ID: "msg_1", Kind: k, TriggerKind: trigger[k], TaskID: "task_1",
		Body: ledger.Body{Type: "text", Text: "x"}}
}

// A wait for one external trigger ends by that one, however it came.
func TestTriggersOfOneTrigger(t *testing.T) {
	w := ledger.Wait{Status: ledger.WaitActive,
		Wakes: []ledger.WakeSource{{Kind: rules.WakeExternal, ExternalTriggerID: "trg_1"}}}
	tick := message(ledger.KindSystemTick)
	for id, want := range map[string]bool{"trg_1": true, "trg_2": false, "": false} {
		tick.SourceRefs = map[string]string{"external_trigger_id": id}
		if rules.Triggers(w, tick) != want {
			t.Errorf("a tick through %q ends it: %v", id, !want)
		}
	}
	if rules.Triggers(w, message(ledger.KindWebhookEvent)) {
		t.Error("any webhook ends it")
	}
}

func TestStranded(t *testing.T) {
	gone := func(id string) bool { return id != "trg_1" }
	at := time.Now()
	one := []ledger.WakeSource{{Kind: rules.WakeExternal, ExternalTriggerID: "trg_1"}}
	for name, c := range map[string]struct {
		w    ledger.Wait
		want bool
	}{
		"its trigger is gone": {ledger.Wait{Wakes: one}, true},
		"nothing wakes it":    {ledger.Wait{}, true},
		"another trigger": {ledger.Wait{Wakes: append(one[:1:1],
			ledger.WakeSource{Kind: rules.WakeExternal, ExternalTriggerID: "trg_2"})}, false},
		"it expires":           {ledger.Wait{Wakes: one, ExpiresAt: &at}, false},
		"the clock wakes it":   {ledger.Wait{Wakes: one, WakeAt: &at}, false},
		"everything wakes it":  {ledger.Wait{Wakes: rules.AnyWake()}, false},
		"anything from others": {ledger.Wait{Wakes: []ledger.WakeSource{{Kind: rules.WakeExternal}}}, false},
	} {
		expect.Equal(t, name+": stranded", rules.Stranded(c.w, gone), c.want)
	}
}

func TestMergeHint(t *testing.T) {
	plain, news, old := ledger.WakeHint{Reason: "p"}, ledger.WakeHint{Reason: "n", Body: []byte(`1`)},
		ledger.WakeHint{Reason: "o", Description: "d"}
	h := rules.MergeHint(nil, plain)
	for i, c := range []struct {
		add  ledger.WakeHint
		want string
	}{{old, "o"}, {plain, "o"}, {news, "n"}, {plain, "n"}} {
		h = rules.MergeHint(h, c.add)
		if h.Reason != c.want || h.Coalesced != i+1 {
			t.Fatalf("after %d hints: %+v, want %s", i+2, h, c.want)
		}
	}
	through := ledger.WakeHint{Reason: "t", Body: []byte(`2`), ExternalTriggerID: "trg"}
	h = rules.MergeHint(h, through)
	expect.Equal(t, "reason", h.Reason, "n")
	expect.Equal(t, "trigger", h.ExternalTriggerID, "")
	expect.Equal(t, "hints", h.Coalesced, 5)
	if h = rules.MergeHint(&through, news); h.Reason != "n" || h.ExternalTriggerID != "" {
		t.Errorf("what came to a trigger kept the operator's words away: %+v", h)
	}
}

// What coalesced hints said is kept, each thing once and only so many, and lends the tick no more authority than the
// least of them had.
func TestMergeHintKeepsNotes(t *testing.T) {
	var h *ledger.WakeHint
	hint := func(i int) ledger.WakeHint {
		return ledger.WakeHint{Reason: "changed", Description: fmt.Sprint("part ", i), Source: "forge",
			Resource: fmt.Sprint("issue/", i)}
	}
	for i := range 3 {
		h = rules.MergeHint(rules.MergeHint(h, hint(i)), hint(i))
	}
	if len(h.Also) != 2 || h.Also[0].Resource != "issue/0" || h.Also[1].Description != "part 1" ||
		h.Description != "part 2" || h.Coalesced != 5 {
		t.Errorf("after three hints, twice each: %+v", h)
	}
	if g := tick(*h); g.Authority != ledger.RuntimeInstruction {
		t.Errorf("the operator's hints are %s", g.Authority)
	}
	foreign := hint(3)
	foreign.ExternalTriggerID = "trg"
	if h = rules.MergeHint(h, foreign); h.Description != "part 2" || len(h.Also) != 3 ||
		tick(*h).Authority != ledger.IntegrationSignal {
		t.Errorf("with one of an external trigger: %+v", h)
	}
	foreign.Body, foreign.Resource = json.RawMessage(`{"n":1}`), ""
	h = rules.MergeHint(h, foreign)
	foreign.Body = json.RawMessage(`"` + strings.Repeat("x", 40<<10) + `"`)
	h = rules.MergeHint(h, foreign)
	if n := h.Also[len(h.Also)-2:]; string(n[0].Body) != `{"n":1}` || n[1].Body != nil || n[1].BodyBytes != 40<<10+2 {
		t.Errorf("the bodies are %+v, want the small one, and the size of the large one", n)
	}
	for i := range 100 {
		h = rules.MergeHint(h, hint(10+i))
	}
	if len(h.Also) != 32 || h.Coalesced != 108 || h.Description != "part 109" {
		t.Errorf("after many: %d notes, %d coalesced, %s", len(h.Also), h.Coalesced, h.Description)
	}
}

// What came to an external trigger takes neither the place nor the room for a body from what an operator said.
func TestMergeHintKeepsNotesOfOperators(t *testing.T) {
	var h *ledger.WakeHint
	body := json.RawMessage(`"` + strings.Repeat("x", 10<<10) + `"`)
	for i := range 40 {
		h = rules.MergeHint(h, ledger.WakeHint{Reason: fmt.Sprint("trigger ", i), Body: body, ExternalTriggerID: "trg"})
	}
	for i := range 3 {
		h = rules.MergeHint(h, ledger.WakeHint{Reason: fmt.Sprint("operator ", i), Body: body})
	}
	var said []string
	for _, n := range h.Also {
		if n.ExternalTriggerID == "" {
			said = append(said, fmt.Sprint(n.Reason, " ", len(n.Body)))
		}
	}
	want := []string{"operator 0 10242", "operator 1 10242"}
	if h.Reason != "operator 2" || !reflect.DeepEqual(said, want) || len(h.Also) != 32 || h.Coalesced != 42 {
		t.Errorf("%s, with %q among %d notes and %d coalesced, want %q", h.Reason, said, len(h.Also), h.Coalesced, want)
	}
	for i := range 40 {
		h = rules.MergeHint(h, ledger.WakeHint{Reason: fmt.Sprint("more ", i)})
	}
	h = rules.MergeHint(h, ledger.WakeHint{Reason: "late", ExternalTriggerID: "trg"})
	if len(h.Also) != 32 || h.Also[31].Reason == "late" || h.Also[0].Reason != "operator 0" {
		t.Errorf("after many hints of the operator: %d notes, from %s to %s", len(h.Also), h.Also[0].Reason,
			h.Also[31].Reason)
	}
}

// Where no work goes on, the posture names the item that waits, the one for the operator first.
func TestPostureOfHeldWork(t *testing.T) {
	asks := ledger.WorkItem{
		ID:         "work_1",
		Objective:  "a name",
		State:      ledger.WorkOpen,
		PlanStatus: ledger.PlanNeedsInput,
	}
	builds := ledger.WorkItem{ID: "work_2", Objective: "the site", State: ledger.WorkOpen}
	waits := []ledger.Wait{{Owner: builds.ID, Kind: ledger.WaitTask, Status: ledger.WaitActive, SubjectRef: "task_1"}}
	for _, c := range []struct {
		open []ledger.WorkItem
		want rules.Posture
	}{
		{nil, rules.Posture{Posture: "idle", Reason: "nothing is to be done"}},
		{[]ledger.WorkItem{builds}, rules.Posture{Posture: "waiting_for_task", Reason: "work item: the site",
			WorkItemID: "work_2", TaskID: "task_1"}},
		{[]ledger.WorkItem{builds, asks}, rules.Posture{Posture: "waiting_for_operator", Reason: "work item: a name",
			WorkItemID: "work_1"}},
	} {
		expect.Equal(t, "posture", (rules.Situation{Held: rules.Held(c.open, waits)}).Posture(), c.want)
	}
}
