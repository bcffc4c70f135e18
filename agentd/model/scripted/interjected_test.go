package scripted_test

import (
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/responses"
	"holon/test/expect"
)

func meanwhile(text string) responses.Item {
	return &responses.Message{ID: responses.PrefixInterjected + "1", Role: responses.RoleUser,
		Content: []responses.Part{responses.InputText(text)}}
}

func notice(text string) responses.Item {
	return &responses.Message{Role: responses.RoleDeveloper, Content: []responses.Part{responses.InputText(text)}}
}

const interjecting = `
turns:
  - rounds:
      - text: looking
        calls: [{tool: ExecCommand, arguments: {cmd: ls}}]
      - cases:
          - when: {said: {contains: stop}, exit_status: 0}
            text: "stopped: {{last_said}} ({{last_user}})"
          - when: {said: {matches: '^$'}}
            text: nothing was said
          - text: "heard {{last_said}}"
      - text: "and also {{last_said}} in round {{round}}"
  - rounds:
      - text: the second turn
`

// The next round answers a message of the user that comes while a turn runs. The
// message moves neither the turns nor the rounds.
func TestWhatWasSaidMeanwhile(t *testing.T) {
	tr, _ := open(t, map[string]string{"said.yaml": interjecting,
		"strict.yaml": "after_last_turn: diverge\n" + interjecting})
	first := []responses.Item{user("go"), said("looking"), ran("call_t1_r1_1", 0, "a")}
	then := func(more ...responses.Item) []responses.Item {
		return append(append([]responses.Item{}, first...), more...)
	}
	for name, c := range map[string]struct {
		input []responses.Item
		want  string
	}{
		"nothing":                {first, "nothing was said"},
		"something":              {then(meanwhile("hello")), "heard hello"},
		"several":                {then(meanwhile("a"), meanwhile("b")), "heard a\nb"},
		"a condition":            {then(meanwhile("stop now")), "stopped: stop now (go)"},
		"a notice":               {then(notice("a task ended")), "nothing was said"},
		"a notice and a word":    {then(notice("a task ended"), meanwhile("hello")), "heard hello"},
		"before the first round": {[]responses.Item{user("go"), meanwhile("hello")}, "looking"},
		"before, and the round": {[]responses.Item{user("go"), meanwhile("hello"), said("looking"),
			ran("call_t1_r1_1", 0, "a")}, "nothing was said"},
		"after the answer": {then(said("nothing was said"), meanwhile("wait")), "and also wait in round 3"},
		"after both": {then(meanwhile("hello"), said("heard hello"), meanwhile("wait")),
			"and also wait in round 3"},
		"after the last round": {then(said("nothing was said"), meanwhile("x"), said("and also x in round 3"),
			meanwhile("y")), "and also y in round 4"},
		"and the next turn":         {then(meanwhile("hello"), said("heard hello"), user("next")), "the second turn"},
		"a turn that was cut short": {then(meanwhile("hello"), user("next")), "the second turn"},
	} {
		t.Run(name, func(t *testing.T) {
			events, err := collect(t.Context(), tr, model.Request{Model: "said", Input: c.input})
			expect.NoError(t, err)
			expect.Equal(t, "it says", summarise(events).Text, c.want)
		})
	}
	_, err := collect(t.Context(), tr, model.Request{Model: "strict",
		Input: then(said("nothing was said"), meanwhile("x"), said("and also x in round 3"), meanwhile("y"))})
	if err == nil || !strings.Contains(err.Error(), "only 3 round(s)") {
		t.Errorf("beyond the last round: %v", err)
	}
}
