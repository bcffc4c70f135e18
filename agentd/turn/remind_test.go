package turn

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/internal/providers"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

const reminding4 = `{"input":"hi","holon":{"reminder":{"text":"REMEMBER","rounds":4,"cooldown_rounds":3}}}`

// reminded returns the rounds whose request ends with a reminder, with its text. It is an error when one is elsewhere.
func reminded(t *testing.T, asked []model.Request) (list []string) {
	t.Helper()
	for i, req := range asked {
		for at, item := range req.Input {
			m, ok := item.(*responses.Message)
			if !ok || m.Role != responses.RoleDeveloper {
				continue
			}
			if at != len(req.Input)-1 {
				t.Errorf("round %d: a reminder is item %d of %d, want the last", i+1, at+1, len(req.Input))
			}
			list = append(list, fmt.Sprint(i+1, " ", m.Text()))
		}
	}
	return list
}

// renews makes results of the box's tool renew the reminder, by the id of the call; fails are calls that fail.
func (s *stage) renews(texts map[string]string, fails ...string) {
	s.box.say = func(id string) tools.Outcome {
		o := tools.Outcome{Canonical: tools.Result{ToolName: "Run", Status: "success", Result: json.RawMessage(`{}`)},
			Rendered: "ok"}
		if text, ok := texts[id]; ok {
			o.Directive.Reminder = &text
		}
		if slices.Contains(fails, id) {
			o.Canonical = tools.Result{ToolName: "Run", Status: "error",
				Error: &tools.Error{Kind: "broken", Message: "broken"}}
		}
		return o
	}
}

// The reminder comes after that many rounds without a result that renews it, and again after the cooldown.
func TestReminder(t *testing.T) {
	for name, c := range map[string]struct {
		body  string
		texts map[string]string
		fails []string
		want  []string
	}{
		"never renewed": {body: reminding4, want: []string{"5 REMEMBER", "8 REMEMBER", "11 REMEMBER"}},
		"renewed": {reminding4, map[string]string{"call_1": "second"}, nil,
			[]string{"7 second", "10 second"}},
		"renewed after it was sent": {reminding4, map[string]string{"call_4": "later"}, nil,
			[]string{"5 REMEMBER", "10 later"}},
		"cleared": {reminding4, map[string]string{"call_5": ""}, nil, []string{"5 REMEMBER"}},
		"set by a result": {strings.Replace(reminding4, `"text":"REMEMBER",`, "", 1),
			map[string]string{"call_2": "new"}, nil, []string{"8 new", "11 new"}},
		"a call that failed": {reminding4, map[string]string{"call_1": "no"}, []string{"call_1"},
			[]string{"5 REMEMBER", "8 REMEMBER", "11 REMEMBER"}},
		"none": {body: `{"input":"hi"}`, texts: map[string]string{"call_1": "no"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, c.body, append(calls(11), answer)...)
			s.turn.MaxRounds = 20
			s.renews(c.texts, c.fails...)
			if resp, result := s.run(t, t.Context()); result.Rounds != 12 {
				t.Fatalf("the turn has %d rounds and ended %s, want 12", result.Rounds, outcome(resp))
			}
			got := reminded(t, s.model.asked)
			if !slices.Equal(got, c.want) {
				t.Errorf("the model was reminded in the rounds %q, want %q", got, c.want)
			}
			if n := len(facts[turns.Reminded](t, s.journal, turns.ReminderInjected)); n != len(c.want) {
				t.Errorf("%d facts tell of it, want %d", n, len(c.want))
			}
		})
	}
}

// What is stored and shown is the same with a reminder and without, and so is every request but for its last item.
func TestReminderIsOfOneRequestAlone(t *testing.T) {
	rounds := append(calls(7), answer)
	with, without := newStage(t, reminding4, rounds...), newStage(t, `{"input":"hi"}`, rounds...)
	resp, result := with.run(t, t.Context())
	_, plain := without.run(t, t.Context())
	if got := reminded(t, with.model.asked); !slices.Equal(got, []string{"5 REMEMBER", "8 REMEMBER"}) {
		t.Fatalf("the model was reminded in the rounds %q, want 5 and 8", got)
	}
	for i, req := range with.model.asked {
		want := shape(without.model.asked[i].Input)
		if i+1 == 5 || i+1 == 8 {
			want += " developer(REMEMBER)"
		}
		if got := shape(req.Input); got != want {
			t.Errorf("round %d was told\n%s, want\n%s", i+1, got, want)
		}
	}
	if got, want := shape(result.Conversation), shape(plain.Conversation); got != want {
		t.Errorf("the conversation is\n%s, want\n%s", got, want)
	}
	if got, want := shape(with.journal.items), shape(without.journal.items); got != want {
		t.Errorf("the journal has\n%s, want\n%s", got, want)
	}
	all, err := json.Marshal(resp.Output)
	expect.NoError(t, err)
	for _, ev := range with.journal.events {
		all = append(all, ev.Payload...)
	}
	if text := string(all) + strings.Join(with.stream, ""); strings.Contains(text, "REMEMBER") {
		t.Errorf("response, stream or facts have the reminder:\n%s", text)
	}
}

// A reminder that leaves too little room is skipped, which is recorded, and due again after the cooldown.
func TestReminderWithoutRoom(t *testing.T) {
	body := strings.Replace(reminding4, "REMEMBER", strings.Repeat("remember ", 1500), 1)
	s := newStage(t, body, append(calls(8), answer)...)
	s.turn.Window = providers.Window{Context: 3_000, Output: 500}
	s.run(t, t.Context())
	if got := reminded(t, s.model.asked); len(got) != 0 {
		t.Errorf("the model was reminded in %d rounds, want none", len(got))
	}
	got := facts[turns.Reminded](t, s.journal, turns.ReminderSkipped)
	if len(got) != 2 || got[0].Round != 5 || got[0].RoundsSince != 4 || got[1].Round != 8 {
		t.Errorf("skipped were %+v, want the rounds 5 and 8", got)
	}
	if n := len(facts[turns.Reminded](t, s.journal, turns.ReminderInjected)); n != 0 {
		t.Errorf("%d facts say that it was sent, want none", n)
	}
}

// A request that its provider found too long is made again without the reminder.
func TestReminderIsNotSentAgainWithTheRound(t *testing.T) {
	m := reminding{Reminder: responses.Reminder{Text: "x", Rounds: 4, CooldownRounds: 1}}
	var due []int
	for _, round := range []int{1, 2, 3, 4, 5, 5, 6} {
		if m.due(round) {
			m.looked, due = round, append(due, round)
		}
	}
	if !slices.Equal(due, []int{5, 6}) {
		t.Errorf("it was due in the rounds %v, want 5 and 6, each once", due)
	}
}
