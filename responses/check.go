package responses

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"holon/internal/visible"
)

// This file holds the bounds that a request must keep.

// check enforces the bounds of the fields that DecodeRequest did not check
// while it read them.
func (r *Request) check() error {
	err := firstError(checkMin("max_output_tokens", r.MaxOutputTokens), checkMin("max_tool_calls", r.MaxToolCalls),
		r.checkRanges(), checkWord("truncation", r.Truncation, "auto", "disabled"))
	if err != nil {
		return err
	}
	if r.Background && !r.Store {
		e := Invalid("background", CodeUnsupportedParameter,
			"a background response can only be fetched when it is stored")
		e.Hint = "leave out store:false, or background"
		return e
	}
	if err := r.checkNames(); err != nil {
		return err
	}
	if r.PreviousResponseID != "" && CheckID("previous_response_id", r.PreviousResponseID) != nil {
		return PreviousNotFound(r.PreviousResponseID)
	}
	// Only the server knows whether the tool exists, since it adds its own.
	return firstError(checkOptionalName("tool_choice.name", r.ToolChoice.Name), checkMetadata(r.Metadata),
		r.Holon.check())
}

func checkMetadata(pairs map[string]string) error {
	if err := checkCount("metadata", "pairs", len(pairs), maxMetadataPairs); err != nil {
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		if n := utf8.RuneCountInString(k); n > maxMetadataKey {
			return Invalid("metadata", CodeInvalidValue,
				fmt.Sprintf("a key of metadata may have at most %d characters, %q has %d", maxMetadataKey,
					visible.Clip(k, maxMetadataKey), n))
		}
		if err := checkChars("metadata."+k, pairs[k], maxMetadataValue); err != nil {
			return err
		}
	}
	return nil
}

// ranges are the numbers with bounds, in words for a value that no Go number can hold.
var ranges = map[string]string{
	"max_output_tokens": "an integer of at least 1",
	"max_tool_calls":    "an integer of at least 1",
	"top_logprobs":      fmt.Sprintf("an integer from 0 to %d", maxLogprobs),
	"temperature":       fmt.Sprintf("a number from 0 to %d", maxTemperature),
	"top_p":             "a number from 0 to 1",
	"presence_penalty":  fmt.Sprintf("a number from -%d to %d", maxPenalty, maxPenalty),
	"frequency_penalty": fmt.Sprintf("a number from -%d to %d", maxPenalty, maxPenalty),
}

// checkRanges checks the numbers that have a least and a greatest value.
func (r *Request) checkRanges() error {
	return firstError(
		checkRange("top_logprobs", r.TopLogprobs, 0, maxLogprobs),
		checkRange("temperature", r.Temperature, 0, maxTemperature),
		checkRange("top_p", r.TopP, 0, 1),
		checkRange("presence_penalty", r.PresencePenalty, -maxPenalty, maxPenalty),
		checkRange("frequency_penalty", r.FrequencyPenalty, -maxPenalty, maxPenalty))
}

func checkRange[T int | float64](param string, v, low, high T) error {
	if cmp.Compare(v, low) >= 0 && cmp.Compare(v, high) <= 0 {
		return nil
	}
	return Invalid(param, CodeInvalidValue,
		fmt.Sprintf("%s must be %s to %s, not %s", param, plain(low), plain(high), plain(v)))
}

// plain prints a number as a person writes it: 2.5 and never 2.500000e+00, unless
// it is too long to be read.
func plain[T int | float64](v T) string {
	f := float64(v)
	if size := math.Abs(f); size != 0 && (size >= 1e15 || size < 1e-6) {
		return strings.Replace(strconv.FormatFloat(f, 'g', -1, 64), "e+", "e", 1)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// checkNames checks the short strings and the words from fixed lists.
func (r *Request) checkNames() error {
	deref := func(s *string) string { return orDefault(s, "") }
	reasoning := orDefault(r.Reasoning, ReasoningConfig{})
	for _, short := range []struct {
		param, value string
		limit        int
	}{
		{"prompt_cache_key", deref(r.PromptCacheKey), maxCacheKey},
		{"safety_identifier", deref(r.SafetyIdentifier), maxCacheKey},
		{"service_tier", r.ServiceTier, maxShortName},
		{"reasoning.effort", deref(reasoning.Effort), maxShortName},
	} {
		if err := checkChars(short.param, short.value, short.limit); err != nil {
			return err
		}
	}
	f := r.Text.Format
	err := firstError(
		checkWord("reasoning.summary", deref(reasoning.Summary), "", "auto", "concise", "detailed"),
		checkWord("text.verbosity", r.Text.Verbosity, "", "low", "medium", "high"),
		checkWord("text.format.type", f.Type, "", "text", "json_object", "json_schema"),
		checkOptionalName("text.format.name", f.Name))
	if err == nil && f.Schema != nil {
		err = CheckSchema("text.format.schema", f.Schema)
	}
	if err != nil {
		return err
	}
	for i, v := range r.Include {
		if strings.HasPrefix(v, extension) && v != includeToolCalls { // clients send many other values
			return Invalid(fmt.Sprintf("include[%d]", i), CodeUnsupportedParameter,
				fmt.Sprintf("%q is not offered by this server; only %s is", visible.Clip(v, 64), includeToolCalls))
		}
	}
	return nil
}

// checkOptionalName is checkToolName for a name that may be absent.
func checkOptionalName(param, name string) error {
	if name == "" {
		return nil
	}
	return checkToolName(param, name)
}

// checkWord refuses a value that is not one of allowed. One of them may be "", for an absent value.
func checkWord(param, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	words := slices.DeleteFunc(slices.Clone(allowed), func(word string) bool { return word == "" })
	last := len(words) - 1
	choices := words[last]
	if last > 0 {
		choices = strings.Join(words[:last], ", ") + " or " + choices
	}
	return Invalid(param, CodeInvalidValue,
		fmt.Sprintf("%s must be %s, not %q", orBody(param), choices, visible.Clip(value, 32)))
}

func checkChars(param, s string, limit int) error {
	if len(s) <= limit { // most are, and need not be counted
		return nil
	}
	if n := utf8.RuneCountInString(s); n > limit {
		return Invalid(param, CodeInvalidValue,
			fmt.Sprintf("%s may have at most %d characters, this has %d", orBody(param), limit, n))
	}
	return nil
}

func checkMin(param string, v *int) error {
	if v != nil && *v < 1 {
		return Invalid(param, CodeInvalidValue, fmt.Sprintf("%s must be at least 1, not %d", param, *v))
	}
	return nil
}

// Bounds of the names in a request.
const (
	maxSkills    = 1000
	maxFallbacks = 16
)

func (h *Holon) check() error {
	for _, id := range []struct{ param, value string }{{"holon.session_id", h.SessionID}, {"holon.turn_id", h.TurnID},
		{"holon.response_id", h.ResponseID}} {
		if id.value == "" {
			continue
		}
		if err := CheckID(id.param, id.value); err != nil {
			return err
		}
	}
	l := orDefault(h.Limits, Limits{})
	return firstError(checkWord("holon.isolation", h.Isolation, "", isolationNone, IsolationCopy, IsolationWorktree),
		checkCount("holon.skills", "names", len(orDefault(h.Skills, nil)), maxSkills),
		checkCount("holon.model_fallbacks", "models", len(h.ModelFallbacks), maxFallbacks),
		h.Reminder.check(),
		checkWord("holon.on_disconnect", h.OnDisconnect, "", "continue", "cancel"),
		checkLimit("max_rounds", int64(l.MaxRounds)), checkLimit("timeout_ms", l.TimeoutMS),
		checkLimit("max_output_bytes", l.MaxOutputBytes))
}

// checkCount refuses a list that is too long; what names its elements.
func checkCount(param, what string, n, most int) error {
	if n <= most {
		return nil
	}
	return Invalid(param, CodeInvalidValue, fmt.Sprintf("%s may have at most %d %s, this has %d", param, most, what, n))
}

func (r *Reminder) check() error {
	if r == nil {
		return nil
	}
	if len(r.Text) > MaxReminder {
		return Invalid("holon.reminder.text", CodeInvalidValue,
			fmt.Sprintf("holon.reminder.text has %d bytes and may have %d; shorten it", len(r.Text), MaxReminder))
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"rounds", r.Rounds}, {"cooldown_rounds", r.CooldownRounds}} {
		if n.value < 1 {
			param := "holon.reminder." + n.name
			return Invalid(param, CodeInvalidValue,
				fmt.Sprintf("%s must be 1 or more, not %d; leave holon.reminder out for none", param, n.value))
		}
	}
	return nil
}

func checkLimit(name string, v int64) error {
	if v >= 0 {
		return nil
	}
	param := "holon.limits." + name
	return Invalid(param, CodeInvalidValue,
		fmt.Sprintf("%s must not be negative, as %d is; leave it out to get the server's own", param, v))
}
