package clients

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// object is JSON as it is.
type object = map[string]any

// rebuild puts the final response together from what a client sees on the way:
// the snapshot of response.created, the items as they were added, and the
// deltas. From the events that repeat, it takes only what no delta has: how an
// item and the response ended. It returns that and the response of the
// terminal event, which must be the same.
func rebuild(events [][]byte) (built, final object, err error) {
	var output []any
	for i, data := range events {
		var ev object
		if err := json.Unmarshal(data, &ev); err != nil {
			return nil, nil, fmt.Errorf("event %d: %w", i, err)
		}
		switch typ := ev["type"].(string); typ {
		case "response.created":
			built = ev["response"].(object)
		case "response.queued", "response.in_progress":
		case "response.completed", "response.failed", "response.incomplete":
			final = ev["response"].(object)
		default:
			if output, err = apply(output, typ, ev); err != nil {
				return nil, nil, fmt.Errorf("event %d (%s): %w", i, typ, err)
			}
		}
	}
	if built == nil || final == nil {
		return nil, nil, fmt.Errorf("%d events have no beginning or no end", len(events))
	}
	for _, key := range []string{"status", "completed_at", "usage", "error", "incomplete_details"} {
		built[key] = final[key]
	}
	if built["output"] = output; output == nil {
		built["output"] = []any{}
	}
	return built, final, nil
}

// apply applies one event of an item.
func apply(output []any, typ string, ev object) ([]any, error) {
	at := int(ev["output_index"].(float64))
	if typ == "response.output_item.added" {
		if at != len(output) {
			return nil, fmt.Errorf("item %d is added after %d", at, len(output))
		}
		return append(output, ev["item"]), nil
	}
	item := output[at].(object)
	switch typ {
	case "response.output_item.done":
		done := ev["item"].(object)
		for key, v := range done {
			switch key {
			case "content", "summary", "arguments", "id", "type", "call_id", "name", "role":
			default: // how it ended; a tool call of the server has its result here
				item[key] = v
			}
		}
	case "response.function_call_arguments.delta":
		item["arguments"] = item["arguments"].(string) + ev["delta"].(string)
	case "response.content_part.added":
		item["content"] = append(item["content"].([]any), ev["part"])
	case "response.reasoning_summary_part.added":
		item["summary"] = append(item["summary"].([]any), ev["part"])
	case "response.output_text.delta":
		grow(item, "content", ev, "content_index", "text")
	case "response.refusal.delta":
		grow(item, "content", ev, "content_index", "refusal")
	case "response.reasoning_summary_text.delta":
		grow(item, "summary", ev, "summary_index", "text")
	case "response.function_call_arguments.done", "response.content_part.done", "response.output_text.done",
		"response.refusal.done",
		"response.reasoning_summary_part.done", "response.reasoning_summary_text.done":
	default:
		return nil, fmt.Errorf("an event that no client knows")
	}
	return output, nil
}

// grow adds a delta to a part of an item.
func grow(item object, list string, ev object, index, key string) {
	part := item[list].([]any)[int(ev[index].(float64))].(object)
	part[key] = part[key].(string) + ev["delta"].(string)
}

// differ says where two objects differ, "" when they do not.
func differ(a, b object) string {
	for key := range b {
		if !reflect.DeepEqual(a[key], b[key]) {
			return fmt.Sprintf("%s is %v, want %v", key, a[key], b[key])
		}
	}
	if len(a) != len(b) {
		return fmt.Sprintf("%d keys, want %d", len(a), len(b))
	}
	return ""
}
