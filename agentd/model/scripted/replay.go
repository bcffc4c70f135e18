package scripted

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"holon/agentd/model"
	"holon/internal/scenario"
	"holon/responses"
)

const (
	maxPlayed    = 10_000 // rounds of one turn
	defaultTimes = 100    // jumps of one goto
)

// position is the round that answers a request.
type position struct {
	scenario *scenario.Scenario
	turn     int // from 1
	number   int // rounds of this turn so far, this one included
	round    *scenario.Round
	step     *scenario.Step
	view     view
}

// locate replays the conversation. A turn of the scenario begins after each
// message of the user (several in a row count as one); within it, every round
// played so far is chosen again from the conversation at that time, and consumes
// its own calls. A message of the user during the turn ends a round and is visible
// to the next. Context items of agentd are ignored.
func locate(sc *scenario.Scenario, input []responses.Item) (*position, error) {
	if slices.ContainsFunc(input, responses.IsContext) {
		input = slices.DeleteFunc(slices.Clone(input), responses.IsContext)
	}
	count, start, user := userTurns(input)
	p := &position{scenario: sc, turn: count, view: view{user: user}}
	if count > len(sc.Turns) {
		if sc.AfterLastTurn == "diverge" {
			p.number = 1
			return nil, p.diverged(fmt.Sprintf("the user speaks for the %d. time, but the scenario has only %d turn(s)",
				count, len(sc.Turns)))
		}
		count = len(sc.Turns)
	}
	rounds := sc.Turns[count-1].Rounds
	rest := p.hear(input[start:])
	jumps := make(map[*scenario.Step]int)
	for at := 0; p.number < maxPlayed; {
		p.number++
		p.round = &rounds[at]
		if err := p.choose(); err != nil {
			return nil, err
		}
		if len(rest) == 0 {
			return p, nil
		}
		var err error
		if rest, err = p.consume(rest); err != nil {
			return nil, err
		}
		rest = p.hear(rest)
		if at = next(rounds, at, p.step, jumps); at == len(rounds) && p.view.interjected != "" &&
			sc.AfterLastTurn != "diverge" {
			at-- // as the last turn repeats, so does its last round when the user says more
		}
		if at == len(rounds) {
			p.number, p.round = p.number+1, nil
			return nil, p.diverged(fmt.Sprintf("the scenario has only %d round(s) in this turn, but the turn goes "+
				"on; its last output is %s", len(rounds), scenario.Excerpt(p.view.texts(0).output)))
		}
	}
	return nil, p.diverged(fmt.Sprintf("more than %d rounds were played in one turn", maxPlayed))
}

// summarize returns the position of a summary, which is outside all turns: the
// conversation to summarize is the user's message.
func summarize(sc *scenario.Scenario, input []responses.Item) *position {
	_, _, user := userTurns(input)
	s := sc.Summary
	if s == nil {
		s = &scenario.Step{Text: fmt.Sprintf("Scripted summary of %d bytes, which end with: %s", len(user), ending(user))}
	}
	return &position{scenario: sc, turn: 1, number: 1, step: s, view: view{user: user}}
}

// ending returns the last characters of a text.
func ending(text string) string {
	const limit = 300
	return strings.ToValidUTF8(text[max(0, len(text)-limit):], "")
}

// userTurns counts the user's turns. start is the index behind the last one's
// message, and user its text.
func userTurns(input []responses.Item) (count, start int, user string) {
	speaking := false // within a run of messages to the model
	for i, item := range input {
		if responses.IsInterjected(item) {
			continue // it belongs to the turn that it came into
		}
		m, ok := item.(*responses.Message)
		if !ok || m.Role == responses.RoleAssistant {
			speaking = false
			continue
		}
		if m.Role == responses.RoleUser {
			if !speaking {
				count++
			}
			speaking, user = true, m.Text()
		}
		if speaking {
			start = i + 1
		}
	}
	return max(count, 1), start, user
}

// hear consumes the messages to the model before the round that are not results:
// messages of the user during the turn, and notices.
func (p *position) hear(items []responses.Item) (rest []responses.Item) {
	var said []string
	for ; len(items) > 0 && aside(items[0]); items = items[1:] {
		if m, ok := items[0].(*responses.Message); ok && responses.IsInterjected(m) {
			said = append(said, m.Text())
		}
	}
	p.view.interjected = strings.Join(said, "\n")
	return items
}

// aside reports whether an item within a turn is a message to the model.
func aside(item responses.Item) bool {
	m, ok := item.(*responses.Message)
	return ok && m.Role != responses.RoleAssistant
}

// choose picks the step of the round by the conversation before it.
func (p *position) choose() error {
	if len(p.round.Cases) == 0 {
		p.step = &p.round.Step
		return nil
	}
	why := ""
	for i := range p.round.Cases {
		c := &p.round.Cases[i]
		miss := mismatch(c.When, p.view)
		if miss == "" {
			p.step = &c.Step
			return nil
		}
		why += fmt.Sprintf("; case %d: %s", i+1, miss)
	}
	return p.diverged("none of its cases fits" + why)
}

// consume consumes the items of the round and makes its calls the view of the next
// round. Calls are identified by their ids.
func (p *position) consume(items []responses.Item) (rest []responses.Item, err error) {
	calls := make([]result, len(p.step.Calls))
	index := make(map[string]int, len(calls))
	for i, c := range p.step.Calls {
		calls[i].tool = c.Tool
		index[p.callID(i)] = i
	}
	seen, n := make(map[string]bool), 0
	for ; n < len(items); n++ {
		if aside(items[n]) {
			break
		}
		id := ""
		switch item := items[n].(type) {
		case *responses.ToolCall:
			id = item.CallID
			if i, ok := index[id]; ok {
				calls[i].output, calls[i].envelope = item.Output, item.Result
			}
		case *responses.FunctionCall:
			id = item.CallID
		case *responses.FunctionCallOutput:
			if i, ok := index[item.CallID]; ok {
				calls[i].output = partsText(item.Output)
			}
			continue
		}
		if _, ours := index[id]; ours && !seen[id] { // a loop may bring the same id again
			seen[id] = true
		} else if len(seen) > 0 || id != "" {
			break // text after calls, or another call, begins the next round
		}
	}
	if rest = items[n:]; len(rest) > 0 && len(seen) < len(calls) {
		return nil, p.diverged(fmt.Sprintf("the conversation has %d of the %d calls of this round and then goes on; "+
			"was it begun with another scenario or model?", len(seen), len(calls)))
	}
	p.view.calls = calls
	return rest, nil
}

// next returns the index of the round after a step, len(rounds) after the last.
func next(rounds []scenario.Round, at int, s *scenario.Step, jumps map[*scenario.Step]int) int {
	if s.Goto == "" || jumps[s] >= cmp.Or(s.Times, defaultTimes) {
		return at + 1
	}
	jumps[s]++
	return slices.IndexFunc(rounds, func(r scenario.Round) bool { return r.ID == s.Goto }) // the check has found it
}

// callID is the id of the i-th call of the round: the same whenever the round
// is played, and different from that of every other call of the conversation.
func (p *position) callID(i int) string {
	if id := p.step.Calls[i].ID; id != "" {
		return id
	}
	return fmt.Sprintf("call_t%d_r%d_%d", p.turn, p.number, i+1)
}

// fails reports whether the step fails in the given attempt, from 1.
func fails(s *scenario.Step, attempt int) bool {
	return s.Error != nil && (s.Error.Attempts == 0 || max(attempt, 1) <= s.Error.Attempts)
}

// failure returns the failure of a scenario as a model error.
func failure(f *scenario.Failure) *model.Error {
	kind := cmp.Or(model.ErrorKind(f.Kind), kindOf(f.Status))
	return &model.Error{Kind: kind, Status: f.Status, Code: cmp.Or(f.Code, codeOf(kind)), RetryAfter: f.RetryAfter,
		Message: cmp.Or(f.Message, "the scenario says that the model fails here")}
}

func kindOf(status int) model.ErrorKind {
	switch {
	case status == 401 || status == 403:
		return model.KindAuthentication
	case status == 429:
		return model.KindRateLimited
	case status >= 500:
		return model.KindOverloaded
	}
	return model.KindInvalidRequest
}

func codeOf(kind model.ErrorKind) string {
	switch kind {
	case model.KindRateLimited:
		return responses.CodeRateLimit
	case model.KindTransport, model.KindOverloaded:
		return responses.CodeProviderUnavailable
	case model.KindAuthentication:
		return responses.CodeProviderAuthentication
	case model.KindContextLength:
		return responses.CodeContextLength
	}
	return responses.CodeModelError
}
