package agentruntime

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Level is how much of the standard a log is held to; each level includes those before it.
type Level byte

// LevelC is everything; 'A' is a single container, 'B' a daemon that restarts.
const LevelC Level = 'C'

// rule is one rule of the standard, which docs/reference/agent-runtime.md states. It has a check, or a reason why a log
// alone cannot show whether it holds.
type rule struct {
	number int
	on     []string // the classes that it judges; one that ends in "." is a prefix; none is every event
	check  func(*finding)
	why    string // no check: what would be needed
}

// id is the name of the rule, V1 to V94.
func (r *rule) id() string { return fmt.Sprintf("V%d", r.number) }

func (r *rule) level() Level {
	switch {
	case r.number <= 38:
		return 'A'
	case r.number <= 70:
		return 'B'
	}
	return LevelC
}

func (r *rule) judges(class string) bool {
	return len(r.on) == 0 || slices.ContainsFunc(r.on, func(on string) bool {
		return on == class || strings.HasSuffix(on, ".") && strings.HasPrefix(class, on)
	})
}

// rules returns the rules V1 to V94 in order.
func rules() []rule {
	all := judged()
	for _, group := range unjudged {
		for _, number := range group.numbers {
			all = append(all, rule{number: number, why: group.why})
		}
	}
	slices.SortFunc(all, func(a, b rule) int { return a.number - b.number })
	return all
}

// judged returns the rules that have a check.
func judged() []rule {
	turnEnds, toolEnds := []string{"turn.completed", "turn.failed"}, []string{"tool.result", "tool.failed"}
	routes := []string{"routing.candidates.resolved", "routing.decided", "routing.single_candidate",
		"routing.not_possible"}
	return []rule{
		{number: 1, check: checkEnvelope},
		{number: 2, check: checkClass},
		{number: 3, check: checkType},
		{number: 4, check: checkRepeat},
		{number: 5, check: checkSequence},
		{number: 6, check: checkSize},
		{number: 8, check: checkDistinct},
		{number: 9, check: checkIntroduced},
		{number: 11, on: pairs("tool call"), check: checkPair},
		{number: 12, on: []string{"tool.started"}, check: checkReopened},
		{number: 13, on: pairs("action"), check: checkPair},
		{number: 14, on: pairs("process"), check: checkPair},
		{number: 15, on: pairs("model request"), check: checkPair},
		{number: 16, on: turnEnds, check: checkOpenAtEnd},
		{number: 17, on: turnWork, check: checkAfterEnd},
		{number: 18, on: pairs("turn"), check: checkTurn},
		{number: 19, check: checkSubmitted},
		{number: 21, on: pairs("compaction", "attempt", "rollback"), check: checkPair},
		{number: 26, on: []string{"model.requested"}, check: checkAttempt},
		{number: 27, on: []string{"turn.failed"}, check: checkFailedTurn},
		{number: 31, on: toolEnds, check: checkToolRecord},
		{number: 32, on: toolEnds, check: checkToolEnd},
		{number: 33, on: []string{"process.started", "tool.result"}, check: checkDenied},
		{number: 36, on: []string{"output.spilled", "output.truncated"}, check: checkOutput},
		{number: 39, on: []string{"process.started"}, check: checkPermitted},
		{number: 40, on: []string{"permission.evaluated", "permission.resolved"}, check: checkReason},
		{number: 47, on: []string{"action.resolved"}, check: checkExpired},
		{number: 48, on: []string{"sandbox.applied"}, check: checkSandbox},
		{number: 49, on: toolEnds, check: checkViolation},
		{number: 51, on: []string{"queue.changed"}, check: checkQueue},
		{number: 53, on: []string{"turn.started"}, check: checkBusy},
		{number: 62, on: []string{"task."}, check: checkTransition},
		{number: 63, on: []string{"task.attempt.started", "task.started"}, check: checkRun},
		{number: 66, on: []string{"task.completed"}, check: checkCompleted},
		{number: 67, on: []string{"task.lost"}, check: func(f *finding) { f.has("evidence") }},
		{number: 70, on: []string{"task.waiting"}, check: func(f *finding) { f.has("wait_for.kind", "wait_for.ref") }},
		{number: 71, on: []string{"model.requested"}, check: checkContext},
		{number: 72, on: []string{"context.compaction.completed"}, check: checkPreserved},
		{number: 75, on: append(routes, turnEnds...), check: checkRouted},
		{number: 77, on: []string{"routing.fallback.applied", "model.requested"}, check: checkFallback},
		{number: 78, on: append([]string{"cost.recorded", "model.completed"}, turnEnds...), check: checkCost},
		{number: 79, on: append([]string{"rate_limit.hit"}, turnEnds...), check: checkLimited},
	}
}

// unjudged are the rules without a check, by the reason.
var unjudged = []struct {
	why     string
	numbers []int
}{
	{"holds by construction: nothing is demanded at the end of a log", []int{20}},
	{"needs a live server", []int{23, 28, 29, 35, 37, 41, 42, 43, 45, 54, 58, 60, 61, 69, 74, 82, 84, 89, 90, 92}},
	{"needs an export", []int{85, 86, 87, 88, 93, 94}},
	{"needs recorded streams of providers", []int{25, 91}},
	{"needs the boundaries of the batches", []int{22}},
	{"needs the briefs and the work items", []int{30}},
	{"needs the plans of the tasks", []int{68}},
	{"needs the published fixtures", []int{10}},
	{"needs the read models", []int{55, 59, 73}},
	{"needs the response object", []int{24}},
	{"needs the secrets that must not occur", []int{7}},
	{"needs the state after a restart", []int{38, 46, 52, 56, 57, 64}},
	{"nothing records such events", []int{34, 50, 65, 76, 80, 81, 83}},
	{"V2 judges `via`, and whether it is true needs a live server", []int{44}},
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
	f.must(ok, path+" "+f.shown(path), "true or false")
}

// oneOf reports a text of the payload that is not one of the words.
func (f *finding) oneOf(path string, words ...string) {
	f.must(slices.Contains(words, f.text(path)), fmt.Sprintf("%s %q", path, f.text(path)), strings.Join(words, ", "))
}

// shown is a field of the payload as it is shown: cut, and "none" without one.
func (f *finding) shown(path string) string {
	value := f.field(path)
	if value == nil {
		return "none"
	}
	data, _ := json.Marshal(value) // what was decoded encodes
	return fmt.Sprintf("%.40s", data)
}

// mayHaveEnded reports whether an id was closed lately. One that may have been forgotten counts as one, and in a part
// of a log one that may have been introduced before it.
func (f *finding) mayHaveEnded(key string) bool {
	return f.closed.set[key] || f.closed.full || f.partial
}
