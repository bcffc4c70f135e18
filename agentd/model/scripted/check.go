package scripted

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"time"

	"holon/agentd/model"
)

// Bounds of a scenario, in addition to its size.
const (
	maxWait   = time.Hour
	maxRepeat = 10_000_000
	maxText   = 64 << 10 // bytes of a repeated text
	maxName   = 64       // characters of a tool's name or a call's id
)

var idPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// check finds errors beyond those of the YAML decoder and prepares data that is the
// same for every play. Errors begin with the path of the field.
func (sc *scenario) check() error {
	switch {
	case len(sc.Rounds) > 0 && len(sc.Turns) > 0:
		return errors.New("rounds and turns: write one of them; rounds is short for a single turn")
	case len(sc.Rounds) > 0:
		if err := checkRounds("rounds", sc.Rounds); err != nil {
			return err
		}
		sc.Turns, sc.Rounds = []turn{{Rounds: sc.Rounds}}, nil
	case len(sc.Turns) == 0:
		return errors.New("rounds: a scenario needs at least one round")
	default:
		for i := range sc.Turns {
			if err := checkRounds(fmt.Sprintf("turns[%d].rounds", i), sc.Turns[i].Rounds); err != nil {
				return err
			}
		}
	}
	if err := sc.checkSummary(); err != nil {
		return err
	}
	return oneOf("after_last_turn", sc.AfterLastTurn, "", "repeat", "diverge")
}

func (sc *scenario) checkSummary() error {
	s := sc.Summary
	switch {
	case s == nil:
		return nil
	case len(s.Calls) > 0 || s.Expect != nil:
		return errors.New("summary: no tool can be called in a summary and nothing expected of one; remove calls " +
			"and expect")
	}
	return s.check("summary", nil)
}

func checkRounds(path string, rounds []round) error {
	if len(rounds) == 0 {
		return fmt.Errorf("%s: a turn needs at least one round", path)
	}
	ids := make(map[string]bool)
	for i := range rounds {
		id := rounds[i].ID
		if id == "" {
			continue
		}
		if !idPattern.MatchString(id) {
			return fmt.Errorf("%s[%d].id: %s is not a name; use letters, digits, _ and -", path, i, excerpt(id))
		}
		if ids[id] {
			return fmt.Errorf("%s[%d].id: there are two rounds called %s", path, i, id)
		}
		ids[id] = true
	}
	for i := range rounds {
		if err := rounds[i].check(fmt.Sprintf("%s[%d]", path, i), ids); err != nil {
			return err
		}
	}
	return nil
}

func (r *round) check(path string, ids map[string]bool) error {
	if len(r.Cases) == 0 {
		return r.Step.check(path, ids)
	}
	if !reflect.ValueOf(r.Step).IsZero() {
		return fmt.Errorf("%s: a round with cases does nothing itself; move its other keys into a case", path)
	}
	for i := range r.Cases {
		c := &r.Cases[i]
		at := fmt.Sprintf("%s.cases[%d]", path, i)
		if c.When == nil && i < len(r.Cases)-1 {
			return fmt.Errorf("%s: only the last case may lack when; the cases after this one could never be played",
				at)
		}
		if err := c.When.check(at + ".when"); err != nil {
			return err
		}
		if err := c.Step.check(at, ids); err != nil {
			return err
		}
	}
	return nil
}

func (s *step) check(path string, ids map[string]bool) error {
	switch {
	case s.Text != "" && len(s.Chunks) > 0:
		return fmt.Errorf("%s.chunks: write text or chunks, not both", path)
	case s.ChunkSize < 0:
		return fmt.Errorf("%s.chunk_size: must not be negative", path)
	case s.Goto != "" && !ids[s.Goto]:
		return fmt.Errorf("%s.goto: there is no round with the id %s in this turn", path, excerpt(s.Goto))
	case s.Goto != "" && len(s.Calls) == 0:
		return fmt.Errorf("%s.goto: a round without calls ends the turn, so nothing can follow it", path)
	case s.Times < 0 || s.Times > 0 && s.Goto == "":
		return fmt.Errorf("%s.times: must be at least 1 and come with goto", path)
	case s.empty():
		return fmt.Errorf("%s: the round does nothing; give it text, calls, or another thing to do", path)
	}
	if err := s.checkTexts(path); err != nil {
		return err
	}
	if err := s.checkCalls(path); err != nil {
		return err
	}
	if err := s.Repeat.check(path + ".repeat"); err != nil {
		return err
	}
	if err := s.Error.check(path + ".error"); err != nil {
		return err
	}
	if err := s.Expect.check(path + ".expect"); err != nil {
		return err
	}
	return oneOf(path+".stop", s.Stop, "", string(model.StopEnd), string(model.StopMaxTokens),
		string(model.StopContentFilter))
}

// checkTexts checks the pauses and the texts of a step.
func (s *step) checkTexts(path string) error {
	for name, d := range map[string]time.Duration{"delay": s.Delay, "gap": s.Gap} {
		if err := checkWait(path+"."+name, d); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"text": s.Text, "reasoning": s.Reasoning, "refusal": s.Refusal} {
		if err := checkPlaceholders(path+"."+name, text); err != nil {
			return err
		}
	}
	for i, chunk := range s.Chunks {
		if err := checkPlaceholders(fmt.Sprintf("%s.chunks[%d]", path, i), chunk); err != nil {
			return err
		}
	}
	return nil
}

func (s *step) checkCalls(path string) error {
	callIDs := make(map[string]bool)
	for i := range s.Calls {
		if id := s.Calls[i].ID; id != "" && callIDs[id] {
			return fmt.Errorf("%s.calls[%d].id: two calls of the round have the id %s", path, i, id)
		}
		callIDs[s.Calls[i].ID] = true
		if err := s.Calls[i].check(fmt.Sprintf("%s.calls[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

func (s *step) empty() bool {
	return s.Text == "" && len(s.Chunks) == 0 && s.Repeat == nil && s.Reasoning == "" && s.Refusal == "" &&
		len(s.Calls) == 0 && s.Error == nil && s.Stop == ""
}

func (c *call) check(path string) error {
	switch {
	case c.Tool == "" || len(c.Tool) > maxName:
		return fmt.Errorf("%s.tool: a call needs the name of a tool, of at most %d characters", path, maxName)
	case c.ID != "" && !idPattern.MatchString(c.ID):
		return fmt.Errorf("%s.id: %s is not a call id; use letters, digits, _ and -", path, excerpt(c.ID))
	case c.Raw != nil && !c.Arguments.IsZero():
		return fmt.Errorf("%s.raw: write arguments or raw, not both", path)
	case c.Raw != nil:
		c.json = *c.Raw
	default:
		args, err := argumentsJSON(&c.Arguments)
		if err != nil {
			return fmt.Errorf("%s.arguments: %w", path, err)
		}
		c.json = args
	}
	return checkPlaceholders(path+".arguments", c.json)
}

func (r *repeat) check(path string) error {
	switch {
	case r == nil:
		return nil
	case r.Text == "" || len(r.Text) > maxText:
		return fmt.Errorf("%s.text: must have 1 to %d bytes", path, maxText)
	case r.Count < 1 || r.Count > maxRepeat:
		return fmt.Errorf("%s.count: must be 1 to %d", path, maxRepeat)
	}
	return checkWait(path+".gap", r.Gap)
}

func (f *failure) check(path string) error {
	switch {
	case f == nil:
		return nil
	case f.Kind == "" && f.Status == 0:
		return fmt.Errorf("%s: needs a kind or an HTTP status", path)
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("%s.status: must be an HTTP status from 400 to 599", path)
	case f.Attempts < 0:
		return fmt.Errorf("%s.attempts: must not be negative", path)
	}
	if err := checkWait(path+".retry_after", f.RetryAfter); err != nil {
		return err
	}
	return oneOf(path+".kind", f.Kind, "", string(model.KindTransport), string(model.KindProtocol),
		string(model.KindAuthentication),
		string(model.KindInvalidRequest), string(model.KindRateLimited), string(model.KindOverloaded),
		string(model.KindContextLength))
}

func (c *condition) check(path string) error {
	if c == nil {
		return nil
	}
	if c.Call < 0 {
		return fmt.Errorf("%s.call: counts from 1", path)
	}
	if err := oneOf(path+".status", c.Status, "", "success", "error"); err != nil {
		return err
	}
	if err := c.Output.compile(path); err != nil {
		return err
	}
	if c.Said != nil {
		if err := c.Said.compile(path + ".said"); err != nil {
			return err
		}
	}
	if c.User != nil {
		return c.User.compile(path + ".user")
	}
	return nil
}

func (m *textMatch) compile(path string) error {
	for i, expr := range m.Matches {
		re, err := regexp.Compile(expr)
		if err != nil {
			return fmt.Errorf("%s.matches[%d]: %w", path, i, err)
		}
		m.compiled = append(m.compiled, re)
	}
	return nil
}

func checkWait(path string, d time.Duration) error {
	if d < 0 || d > maxWait {
		return fmt.Errorf("%s: must be 0s to %s", path, maxWait)
	}
	return nil
}

func oneOf(path, value string, allowed ...string) error {
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return fmt.Errorf("%s: %s is not one of %s", path, excerpt(value), joinWords(allowed[1:])) // the first is always ""
}
