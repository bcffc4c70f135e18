package scenario

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"holon/internal/pattern"
)

// Bounds of a scenario, in addition to its size.
const (
	maxWait   = time.Hour
	maxRepeat = 10_000_000
	maxText   = 64 << 10 // bytes of a repeated text
	maxName   = 64       // characters of a tool's name or a call's id
)

var idPattern = pattern.Lazy(`^[A-Za-z0-9_-]+$`)

func isID(s string) bool { return len(s) <= maxName && idPattern().MatchString(s) }

// checker keeps the first error that it finds. Its methods do not stop there, so that
// checks read as lists.
type checker struct{ err error }

// demand is an error of the field at path unless ok.
func (k *checker) demand(ok bool, path, format string, args ...any) {
	if !ok {
		k.take(path, fmt.Errorf(format, args...))
	}
}

func (k *checker) take(path string, err error) {
	if err != nil && k.err == nil {
		k.err = fmt.Errorf("%s: %w", path, err)
	}
}

func (k *checker) wait(path string, d time.Duration) {
	k.demand(d >= 0 && d <= maxWait, path, "must be 0s to %s", maxWait)
}

// oneOf accepts the empty value, too.
func (k *checker) oneOf(path, value string, allowed ...string) {
	k.demand(value == "" || slices.Contains(allowed, value), path, "%s is not one of %s", Excerpt(value),
		words(allowed))
}

// check finds errors beyond those of the YAML decoder and prepares data that is the
// same for every play. Errors begin with the path of the field.
func (sc *Scenario) check() error {
	k := &checker{}
	k.demand(len(sc.Rounds) == 0 || len(sc.Turns) == 0, "rounds and turns",
		"write one of them; rounds is short for a single turn")
	k.demand(len(sc.Rounds)+len(sc.Turns) > 0, "rounds", "a scenario needs at least one round")
	if len(sc.Rounds) > 0 {
		k.rounds("rounds", sc.Rounds)
		sc.Turns, sc.Rounds = []turn{{Rounds: sc.Rounds}}, nil
	} else {
		for i := range sc.Turns {
			k.rounds(fmt.Sprintf("turns[%d].rounds", i), sc.Turns[i].Rounds)
		}
	}
	if s := sc.Summary; s != nil {
		k.demand(len(s.Calls) == 0 && s.Expect == nil, "summary",
			"no tool can be called in a summary and nothing expected of one; remove calls and expect")
		k.step("summary", s, nil)
	}
	k.oneOf("after_last_turn", sc.AfterLastTurn, "repeat", "diverge")
	return k.err
}

func (k *checker) rounds(path string, rounds []Round) {
	k.demand(len(rounds) > 0, path, "a turn needs at least one round")
	ids := make(map[string]bool)
	for i := range rounds {
		id, at := rounds[i].ID, fmt.Sprintf("%s[%d].id", path, i)
		if id == "" {
			continue
		}
		k.demand(isID(id), at, "%s is not a name; use letters, digits, _ and -", Excerpt(id))
		k.demand(!ids[id], at, "there are two rounds called %s", id)
		ids[id] = true
	}
	for i := range rounds {
		k.round(fmt.Sprintf("%s[%d]", path, i), &rounds[i], ids)
	}
}

func (k *checker) round(path string, r *Round, ids map[string]bool) {
	if len(r.Cases) == 0 {
		k.step(path, &r.Step, ids)
		return
	}
	k.demand(reflect.ValueOf(r.Step).IsZero(), path,
		"a round with cases does nothing itself; move its other keys into a case")
	for i := range r.Cases {
		c, at := &r.Cases[i], fmt.Sprintf("%s.cases[%d]", path, i)
		k.demand(c.When != nil || i == len(r.Cases)-1, at,
			"only the last case may lack when; the cases after this one could never be played")
		k.condition(at+".when", c.When)
		k.step(at, &c.Step, ids)
	}
}

func (k *checker) step(path string, s *Step, ids map[string]bool) {
	k.demand(s.Text == "" || len(s.Chunks) == 0, path+".chunks", "write text or chunks, not both")
	k.demand(s.ChunkSize >= 0, path+".chunk_size", "must not be negative")
	if s.Goto != "" {
		k.demand(ids[s.Goto], path+".goto", "there is no round with the id %s in this turn", Excerpt(s.Goto))
		k.demand(len(s.Calls) > 0, path+".goto", "a round without calls ends the turn, so nothing can follow it")
	}
	k.demand(s.Times == 0 || s.Times > 0 && s.Goto != "", path+".times", "must be at least 1 and come with goto")
	k.demand(!s.empty(), path, "the round does nothing; give it text, calls, or another thing to do")
	k.wait(path+".delay", s.Delay)
	k.wait(path+".gap", s.Gap)
	k.placeholders(path+".text", s.Text)
	k.placeholders(path+".reasoning", s.Reasoning)
	k.placeholders(path+".refusal", s.Refusal)
	for i, chunk := range s.Chunks {
		k.placeholders(fmt.Sprintf("%s.chunks[%d]", path, i), chunk)
	}
	callIDs := make(map[string]bool)
	for i := range s.Calls {
		id, at := s.Calls[i].ID, fmt.Sprintf("%s.calls[%d]", path, i)
		k.demand(id == "" || !callIDs[id], at+".id", "two calls of the round have the id %s", id)
		callIDs[id] = true
		k.call(at, &s.Calls[i])
	}
	k.repeat(path+".repeat", s.Repeat)
	k.failure(path+".error", s.Error)
	k.condition(path+".expect", s.Expect)
	k.oneOf(path+".stop", s.Stop, "end", "max_tokens", "content_filter")
}

func (s *Step) empty() bool {
	return s.Text == "" && len(s.Chunks) == 0 && s.Repeat == nil && s.Reasoning == "" && s.Refusal == "" &&
		len(s.Calls) == 0 && s.Error == nil && s.Stop == ""
}

func (k *checker) call(path string, c *Call) {
	k.demand(c.Tool != "" && len(c.Tool) <= maxName, path+".tool",
		"a call needs the name of a tool, of at most %d characters", maxName)
	k.demand(c.ID == "" || isID(c.ID), path+".id",
		"%s is not a call id; use letters, digits, _ and -", Excerpt(c.ID))
	k.demand(c.Raw == nil || c.Arguments.IsZero(), path+".raw", "write arguments or raw, not both")
	if c.Raw != nil {
		c.JSON = *c.Raw
	} else {
		var err error
		c.JSON, err = argumentsJSON(&c.Arguments)
		k.take(path+".arguments", err)
	}
	k.placeholders(path+".arguments", c.JSON)
}

func (k *checker) repeat(path string, r *Repeat) {
	if r == nil {
		return
	}
	k.demand(r.Text != "" && len(r.Text) <= maxText, path+".text", "must have 1 to %d bytes", maxText)
	k.demand(r.Count >= 1 && r.Count <= maxRepeat, path+".count", "must be 1 to %d", maxRepeat)
	k.wait(path+".gap", r.Gap)
}

func (k *checker) failure(path string, f *Failure) {
	if f == nil {
		return
	}
	k.demand(f.Kind != "" || f.Status != 0, path, "needs a kind or an HTTP status")
	k.demand(f.Status == 0 || f.Status >= 400 && f.Status <= 599, path+".status",
		"must be an HTTP status from 400 to 599")
	k.demand(f.Attempts >= 0, path+".attempts", "must not be negative")
	k.wait(path+".retry_after", f.RetryAfter)
	k.oneOf(path+".kind", f.Kind, "transport", "protocol", "authentication", "invalid_request", "rate_limited",
		"overloaded", "context_length")
}

func (k *checker) condition(path string, c *Condition) {
	if c == nil {
		return
	}
	k.demand(c.Call >= 0, path+".call", "counts from 1")
	k.oneOf(path+".status", c.Status, "success", "error")
	k.compile(path, &c.Output)
	k.compile(path+".said", c.Interjected)
	k.compile(path+".user", c.User)
}

func (k *checker) compile(path string, m *TextMatch) {
	if m == nil {
		return
	}
	for i, expr := range m.Matches {
		re, err := regexp.Compile(expr)
		k.take(fmt.Sprintf("%s.matches[%d]", path, i), err)
		m.Compiled = append(m.Compiled, re)
	}
}

// Placeholder matches our placeholders: a name, and after a colon the regular expression of the part that is meant.
// Other text in braces, such as templates of other tools, is unchanged.
var Placeholder = pattern.Lazy(`\{\{[a-z_]+(:[^{}]+)?\}\}`)

// placeholders refuses misspelt placeholders.
func (k *checker) placeholders(path, text string) {
	for _, p := range Placeholder().FindAllString(text, -1) {
		name, pattern, _ := strings.Cut(strings.Trim(p, "{}"), ":")
		_, err := regexp.Compile(pattern)
		k.demand(err == nil, path, "%s has no regular expression behind its colon", Excerpt(p))
		known := slices.Contains([]string{"last_output", "last_user", "last_said", "round"}, name)
		k.demand(known, path, "%s is not a placeholder; there are {{last_output}}, {{last_user}}, {{last_said}} and "+
			"{{round}}. To say it literally, put spaces inside the braces", Excerpt(p))
	}
}

// Excerpt quotes the beginning of s.
func Excerpt(s string) string {
	const limit = 200
	if len(s) > limit {
		return fmt.Sprintf("%q and %d bytes more", strings.ToValidUTF8(s[:limit], ""), len(s)-limit)
	}
	return fmt.Sprintf("%q", s)
}

// words lists alternatives.
func words(list []string) string {
	if n := len(list); n > 1 {
		return strings.Join(list[:n-1], ", ") + " or " + list[n-1]
	}
	return strings.Join(list, "")
}
