package anthropic

import (
	"regexp"
	"strconv"
	"strings"
)

// contract says which parameters a model accepts. Models of the API refuse what
// older or newer ones require, so every request is made for one model. The rules
// follow Anthropic's model pages and the refusals of its API, as of October 2026.
type contract struct {
	maxOutput int          // tokens that an answer may have; 0: not known
	thinking  thinkingMode // how thinking is requested
	always    bool         // it thinks unless thinking is turned off
	off       offSwitch    // how thinking is turned off
	highest   string       // the highest effort it knows: high, max, or xhigh for both
	sampling  bool         // it accepts temperature and top_p
	either    bool         // but not both
	forced    bool         // tool_choice may force a call
	system    bool         // the conversation may hold messages of the system
	schema    bool         // the API enforces schemas: output_config.format, strict tools
	bound     bool         // its thoughts are bound to the messages before them
	claude    bool         // it is one of Anthropic's own
}

type thinkingMode uint8

const (
	noThinking thinkingMode = iota
	budgetThinking
	adaptiveThinking
)

type offSwitch uint8

const (
	offDisabled offSwitch = iota
	offBetweenTools
	offLowEffort // it cannot be turned off: a low effort is the least
)

// defaultOutput bounds an answer when the request does not, in tokens: room for
// long thoughts and a large file. unknownOutput is for models of others, which
// refuse a number above their own limit.
const (
	defaultOutput = 64_000
	unknownOutput = 8_192
)

var (
	// current matches claude-FAMILY-MAJOR[-MINOR], also within a longer name such
	// as us.anthropic.claude-opus-4-5-20251101. A date is not a minor version.
	current = regexp.MustCompile(`claude-([a-z]+)-(\d{1,2})(?:[.-](\d{1,2}))?(?:\D|$)`)
	// early matches claude-3[-MINOR]-FAMILY.
	early = regexp.MustCompile(`claude-(\d)(?:[.-](\d))?-[a-z]`)
)

// newest is a version above all known ones: a model whose name has no version is
// treated as a new one.
const newest = 9999

// changes lists what Anthropic's models accept from a version on (406 is 4.6),
// in ascending order; each row adds to those before it.
var changes = []struct {
	family string // "" for all of them
	from   int
	apply  func(c *contract)
}{
	{"", 0, func(c *contract) { c.maxOutput = 4_096 }},
	{"fable", 0, func(c *contract) { c.off = offLowEffort }},
	{"mythos", 0, func(c *contract) { c.off = offLowEffort }},
	{"", 305, func(c *contract) { c.maxOutput = 8_192 }},
	{"", 307, func(c *contract) { c.maxOutput, c.thinking = 64_000, budgetThinking }},
	{"opus", 307, func(c *contract) { c.maxOutput = 32_000 }},
	{"", 401, func(c *contract) { c.either = true }},
	{"opus", 401, func(c *contract) { c.schema = true }},
	{"", 405, func(c *contract) { c.maxOutput, c.schema = 64_000, true }},
	{"", 406, func(c *contract) { c.maxOutput, c.thinking = 128_000, adaptiveThinking }},
	{"opus", 406, func(c *contract) { c.highest = "max" }},
	{"", 407, func(c *contract) { c.highest, c.sampling = "xhigh", false }},
	{"", 408, func(c *contract) { c.system = true }},
	{"", 500, func(c *contract) { c.always = true }},
	{"", 501, func(c *contract) { c.bound = true }},
	{"fable", 501, func(c *contract) { c.forced = false }},
	{"mythos", 501, func(c *contract) { c.forced = false }},
	{"", 505, func(c *contract) { c.forced = false }},
	{"haiku", 505, func(c *contract) { c.forced = true }},
	{"sonnet", 505, func(c *contract) { c.off = offBetweenTools }},
	{"opus", 505, func(c *contract) { c.off = offLowEffort }},
	{"", newest, func(c *contract) { c.off = offLowEffort }},
}

// contractOf returns the contract of the named model.
func contractOf(name string) contract {
	name = strings.ToLower(name)
	c := contract{highest: "high", sampling: true, forced: true}
	if !strings.Contains(name, "claude-") {
		c.thinking = budgetThinking
		return c
	}
	c.claude = true
	family, version := "", newest
	if m := current.FindStringSubmatch(name); m != nil {
		family, version = m[1], versionOf(m[2], m[3])
	} else if m := early.FindStringSubmatch(name); m != nil {
		version = versionOf(m[1], m[2])
	}
	for _, change := range changes {
		if version >= change.from && (change.family == "" || change.family == family) {
			change.apply(&c)
		}
	}
	return c
}

func versionOf(major, minor string) int {
	n, _ := strconv.Atoi(major) // digits, as matched
	m, _ := strconv.Atoi(minor) // likewise, or ""
	return 100*n + m
}

// output returns the limit of an answer in tokens. limit is the request's.
func (c contract) output(limit *int) int {
	switch {
	case limit == nil && c.maxOutput == 0:
		return unknownOutput
	case limit == nil:
		return min(defaultOutput, c.maxOutput)
	case c.maxOutput == 0:
		return max(1, *limit)
	}
	return min(max(1, *limit), c.maxOutput)
}

// effort returns the provider's name of an effort: the nearest one that the model
// knows, and "" for an unknown one.
func (c contract) effort(asked string) string {
	switch asked {
	case "minimal", "low":
		return "low"
	case "medium", "high":
		return asked
	case "xhigh", "max":
		switch c.highest {
		case "xhigh":
			return asked
		case "max":
			return "max"
		}
		return "high"
	}
	return ""
}

// budget returns the thinking budget in tokens for an effort and the limit of the
// answer; 0 when the limit leaves no room.
func budget(effort string, limit int) int {
	const least = 1024 // the API's
	n := map[string]int{"low": 4_096, "medium": 10_240, "high": 24_576}[effort]
	if n = min(n, limit-least); n < least {
		return 0
	}
	return n
}
