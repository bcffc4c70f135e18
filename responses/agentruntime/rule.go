package agentruntime

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Level is how much of the standard a log is held to; each level includes those before it.
type Level byte

// The levels: a single container, a daemon that restarts, everything.
const (
	LevelA Level = 'A'
	LevelB Level = 'B'
	LevelC Level = 'C'
)

// Rule is one rule of the standard. It has a check, or a reason why a log alone cannot show whether it holds.
type Rule struct {
	Number    int
	Level     Level
	Statement string
	On        []string // the classes that it judges; one that ends in "." is a prefix; none is every event
	Why       string   // no check: what would be needed

	check func(*finding)
}

// noProducer is why a rule about events that no runtime of ours writes has no check.
const noProducer = "nothing records such events"

// ID is the name of the rule, V1 to V94.
func (r *Rule) ID() string { return fmt.Sprintf("V%d", r.Number) }

// Checked reports whether a log can violate the rule.
func (r *Rule) Checked() bool { return r.check != nil }

func (r *Rule) judges(class string) bool {
	return len(r.On) == 0 || slices.ContainsFunc(r.On, func(on string) bool {
		return on == class || strings.HasSuffix(on, ".") && strings.HasPrefix(class, on)
	})
}

// finding is one rule that judges one event against the state before it.
type finding struct {
	*state
	*Event
	report func(got, want string)
}

// must reports a violation unless the condition holds.
func (f *finding) must(ok bool, got, want string) {
	if !ok {
		f.report(got, want)
	}
}

// has reports the first of the keys that the payload lacks or leaves empty.
func (f *finding) has(keys ...string) {
	if key := f.missing(keys...); key != "" {
		f.report("no payload."+key, "payload with "+strings.Join(keys, ", "))
	}
}

// isBool reports a value of the payload that is neither true nor false.
func (f *finding) isBool(path string) {
	_, ok := f.field(path).(bool)
	f.must(ok, path+" "+f.said(path), "true or false")
}

// oneOf reports a text of the payload that is not one of the words.
func (f *finding) oneOf(path string, words ...string) {
	f.must(slices.Contains(words, f.text(path)), fmt.Sprintf("%s %q", path, f.text(path)), strings.Join(words, ", "))
}

// said is a field of the payload as it is shown: cut, and "none" without one.
func (f *finding) said(path string) string {
	value := f.field(path)
	if value == nil {
		return "none"
	}
	data, _ := json.Marshal(value) // what was decoded encodes
	return fmt.Sprintf("%.40s", data)
}

// known reports whether an id was closed lately. One that may have been forgotten counts as known, and in a part of a
// log one that may have been introduced before it.
func (f *finding) known(key string) bool { return f.closed.set[key] || f.closed.full || f.partial }

// Rules returns the rules V1 to V94 in order.
func Rules() []Rule {
	all := slices.Concat(envelopeRules(), lifecycleRules(), turnRules(), toolRules(), permissionRules(),
		queueRules(), taskRules(), contextRules(), routingRules(), exportRules())
	slices.SortFunc(all, func(a, b Rule) int { return a.Number - b.Number })
	for i := range all {
		switch n := all[i].Number; {
		case n <= 38:
			all[i].Level = LevelA
		case n <= 70:
			all[i].Level = LevelB
		default:
			all[i].Level = LevelC
		}
	}
	return all
}
