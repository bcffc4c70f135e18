package conform

import (
	"maps"
	"slices"
	"strings"

	"holon/test/conform/schema"
)

// checkResponse checks what the protocol's document leaves open of a response object that fits it.
func checkResponse(r *object) {
	for _, key := range strings.Fields("id model service_tier") {
		if r.str(key) == "" {
			r.fail(RuleShape, "%s is empty", key)
		}
	}
	r.integer("created_at")
	r.integer("top_logprobs")
	for _, key := range strings.Fields("completed_at max_output_tokens max_tool_calls") {
		if r.resource[key] != nil {
			r.integer(key)
		}
	}
	if r.resource["usage"] != nil {
		checkUsage(r.obj("usage"))
	}
	failed, cut := r.resource["error"] != nil, r.resource["incomplete_details"] != nil
	switch status := r.str("status"); {
	case status == "failed" && !failed:
		r.fail(RuleShape, "error is null though the status is failed")
	case status == "incomplete" && !cut:
		r.fail(RuleShape, "incomplete_details is null though the status is incomplete")
	case status == "completed" && (r.resource["completed_at"] == nil || failed || cut):
		r.fail(RuleShape, "a completed response has completed_at and neither error nor incomplete_details")
	}
	r.each("output", checkItem)
}

func checkUsage(u *object) {
	for _, key := range strings.Fields("input_tokens output_tokens total_tokens") {
		u.integer(key)
	}
	u.obj("input_tokens_details").integer("cached_tokens")
	u.obj("output_tokens_details").integer("reasoning_tokens")
}

// checkItem checks one item for itself; of items of others it is all that is checked.
func checkItem(it *object) {
	if it.str("id") == "" {
		it.fail(RuleItemID, "id is empty")
	}
	if s := it.str("status"); s != "in_progress" && s != "completed" && s != "incomplete" {
		it.fail(RuleShape, "status is %q", s)
	}
	if typ := it.str("type"); typ == "function_call" || typ == "function_call_output" {
		id := it.str("call_id")
		if n := len(id); n < 1 || n > 64 {
			it.fail(RuleCallID, "call_id has %d characters, want 1 to 64", n)
		}
		if id == it.str("id") {
			it.fail(RuleCallID, "call_id and id are the same")
		}
	}
	it.each("content", checkPart)
}

func checkPart(p *object) { p.each("annotations", checkAnnotation) }

func checkAnnotation(a *object) {
	a.integer("start_index")
	a.integer("end_index")
}

// checkShape holds an event against the protocol's document. That knows no extensions: an item of one is checked for
// itself alone, and a response is checked without it.
func (c *Checker) checkShape(ev *event, data []byte) error {
	doc, err := schema.Official()
	if err != nil {
		return err
	}
	if c.Extensions {
		item, _ := ev.resource["item"].(map[string]any)
		if isExtension(item["type"]) {
			return nil
		}
		data = withoutExtensions(ev, data)
	}
	if err := doc.Event(data); err != nil {
		ev.fail(RuleShape, "%v", err)
	}
	return nil
}

func isExtension(typ any) bool {
	s, _ := typ.(string)
	return strings.Contains(s, ":")
}

// withoutExtensions encodes an event whose response has items of extensions again, without them.
func withoutExtensions(ev *event, data []byte) []byte {
	response, _ := ev.resource["response"].(map[string]any)
	output, _ := response["output"].([]any)
	foreign := func(v any) bool {
		item, _ := v.(map[string]any)
		return isExtension(item["type"])
	}
	if !slices.ContainsFunc(output, foreign) {
		return data
	}
	own := maps.Clone(response)
	own["output"] = slices.DeleteFunc(slices.Clone(output), foreign)
	whole := maps.Clone(ev.resource)
	whole["response"] = own
	return encode(whole)
}
