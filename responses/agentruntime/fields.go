package agentruntime

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// fieldTypes are the fields of payloads that have the same type in every normalized class, a type a paragraph.
const fieldTypes = `number: artifact_count attempt attempt_index backoff_ms bytes candidate_count depth duration_ms
encrypted_bytes estimated_tokens exit_code exit_status from_sequence http_status item_count items kept_bytes max_attempts
model_rounds next_attempt_index output_chars part_index provider_round_ms queue_wait_ms retry_after_ms round rounds
signal size_bytes through_sequence tokens_after tokens_allowed tokens_before tool_calls tool_count turn_index

boolean: accepted accepts_input advanced_to_fallback args_truncated blocking complete degraded detached_children
recoverable redacted retryable traits_omitted truncated tty

text: args_digest attempted call_id code command component cwd decision_reason delivery_state expires_at
failure_category fingerprint incomplete_reason input_ref interrupted_by inventory_ref message model_name
native_request_id native_status objective output_ref payload_ref preview previous_response_id price_source
provider_name provider_selector recovery_hint requested_model response_id revision routing_mode selected_model
selected_provider source stop_reason summary task_kind terminal_kind text_ref tool_name truncation

list: acceptance active_skills artifacts candidates choices discarded_item_ids external_ids fallback_chain files
instructions missing omissions open_action_ids output_refs removed_turn_ids sources tools

object: canonical enforcement entry forked_from preserved process provider_attempt sandbox_profile task
tool_error usage wait_for work_item worker`

var typeOfField = sync.OnceValue(func() map[string]string {
	types := map[string]string{}
	for paragraph := range strings.SplitSeq(fieldTypes, "\n\n") {
		name, fields, _ := strings.Cut(paragraph, ":")
		for field := range strings.FieldsSeq(fields) {
			types[field] = name
		}
	}
	return types
})

// typeName is the type of a value of a payload.
func typeName(value any) string {
	switch value.(type) {
	case float64:
		return "number"
	case bool:
		return "boolean"
	case string:
		return "text"
	case []any:
		return "list"
	}
	return "object"
}

// checkFields holds the payload of a normalized class to what the class has: the fields that it needs, the words of
// its texts, and the types. Null is an absent field.
func checkFields(f *finding, c class) {
	for _, key := range c.Fields {
		f.must(f.field(key) != nil, "no payload."+key, f.Type+" with payload."+key)
	}
	for _, t := range c.Texts {
		if t.Key != "status" {
			checkText(f, t, f.field(t.Key))
		} else if !f.misfit(t.Key) {
			checkText(f, t, f.Status)
		}
	}
	f.field("") // decodes the payload
	for _, key := range slices.Sorted(maps.Keys(f.fields)) {
		want, ok := typeOfField()[key]
		value := f.fields[key]
		if !ok || value == nil || typeName(value) == want || slices.ContainsFunc(c.Texts, func(t text) bool {
			return t.Key == key // which the words of the class tell of
		}) {
			continue
		}
		f.report(fmt.Sprintf("payload.%s %.40v", key, value), "of the type "+want)
	}
}

// checkText holds a text to its words.
func checkText(f *finding, t text, value any) {
	absent := value == nil || value == ""
	word, ok := value.(string)
	got := fmt.Sprintf("%s %.40q", t.Key, word)
	if !absent && !ok {
		got = fmt.Sprintf("%s %.40v", t.Key, value)
	}
	f.must(absent && t.Optional || ok && slices.Contains(t.Words, word), got, strings.Join(t.Words, ", "))
}
