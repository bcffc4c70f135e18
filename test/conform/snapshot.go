package conform

import "strings"

// checkResponse checks the 31 keys of a response object for themselves: which
// must be there, of which type, and which may be null.
func checkResponse(r *object) {
	for _, key := range strings.Fields("id object status model truncation service_tier") {
		if r.str(key) == "" {
			r.fail(RuleShape, "%s is empty", key)
		}
	}
	if r.str("object") != "response" {
		r.fail(RuleShape, "object is %q, want response", r.str("object"))
	}
	r.integer("created_at")
	r.integer("top_logprobs")
	for _, key := range strings.Fields("top_p temperature presence_penalty frequency_penalty") {
		r.number(key)
	}
	for _, key := range strings.Fields("parallel_tool_calls store background") {
		r.boolean(key)
	}
	for _, key := range strings.Fields("previous_response_id instructions safety_identifier prompt_cache_key") {
		if !r.isNull(key) {
			r.str(key)
		}
	}
	for _, key := range strings.Fields("completed_at max_output_tokens max_tool_calls") {
		if !r.isNull(key) {
			r.integer(key)
		}
	}
	r.isNull("metadata")
	r.isNull("tool_choice")
	format := r.obj("text")
	format.absentOrSet("verbosity")
	format.obj("format").str("type")
	if !r.isNull("reasoning") {
		reasoning := r.obj("reasoning")
		reasoning.isNull("effort")
		reasoning.isNull("summary")
	}
	checkUsage(r)
	checkTools(r)
	checkEnding(r)
}

func checkUsage(r *object) {
	if r.isNull("usage") {
		return
	}
	u := r.obj("usage")
	for _, key := range strings.Fields("input_tokens output_tokens total_tokens") {
		u.integer(key)
	}
	u.obj("input_tokens_details").integer("cached_tokens")
	u.obj("output_tokens_details").integer("reasoning_tokens")
}

func checkTools(r *object) {
	for i, t := range r.list("tools") {
		tool := r.within("tools", i, t)
		tool.str("type")
		tool.str("name")
		tool.isNull("description")
		tool.isNull("parameters")
		tool.isNull("strict")
	}
}

// checkEnding checks the keys that depend on the status.
func checkEnding(r *object) {
	status := r.str("status")
	if failed := !r.isNull("error"); failed {
		e := r.obj("error")
		e.str("code")
		e.str("message")
	} else if status == "failed" {
		r.fail(RuleShape, "error is null though the status is failed")
	}
	if why := !r.isNull("incomplete_details"); why {
		r.obj("incomplete_details").str("reason")
	} else if status == "incomplete" {
		r.fail(RuleShape, "incomplete_details is null though the status is incomplete")
	}
	if status == "completed" {
		if r.isNull("completed_at") || !r.isNull("error") || !r.isNull("incomplete_details") {
			r.fail(RuleShape, "a completed response has completed_at and neither error nor incomplete_details")
		}
	}
	for i, v := range r.list("output") {
		checkItem(r.within("output", i, v))
	}
}

// checkItem checks the keys of one item for themselves.
func checkItem(it *object) {
	if it.str("id") == "" {
		it.fail(RuleItemID, "id is empty")
	}
	if s := it.str("status"); s != "in_progress" && s != "completed" && s != "incomplete" {
		it.fail(RuleShape, "status is %q", s)
	}
	switch it.str("type") {
	case "message":
		it.str("role")
		it.absentOrSet("phase")
		checkParts(it, "content")
	case "function_call":
		it.str("name")
		it.str("arguments")
		checkCallID(it)
	case "function_call_output":
		checkCallID(it)
		if _, ok := it.keys["output"].(string); !ok {
			checkParts(it, "output")
		}
	case "reasoning":
		it.absentOrSet("content", "encrypted_content")
		checkParts(it, "summary")
		if it.has("content") {
			checkParts(it, "content")
		}
	case "compaction":
		it.str("encrypted_content")
	}
}

func checkCallID(it *object) {
	id := it.str("call_id")
	if n := len(id); n < 1 || n > 64 {
		it.fail(RuleCallID, "call_id has %d characters, want 1 to 64", n)
	}
	if id == it.str("id") {
		it.fail(RuleCallID, "call_id and id are the same")
	}
}

func checkParts(it *object, key string) {
	for i, v := range it.list(key) {
		checkPart(it.within(key, i, v))
	}
}

func checkPart(p *object) {
	switch p.str("type") {
	case "output_text":
		p.str("text")
		p.absentOrSet("logprobs")
		for i, v := range p.list("annotations") {
			checkAnnotation(p.within("annotations", i, v))
		}
	case "refusal":
		p.str("refusal")
	case "summary_text", "reasoning_text", "text", "input_text":
		p.str("text")
	}
}

func checkAnnotation(a *object) {
	for _, key := range strings.Fields("type url title") {
		a.str(key)
	}
	a.integer("start_index")
	a.integer("end_index")
}
