package tools

import (
	"encoding/json"
)

// Compact returns r in at most about limit bytes of JSON (RFC "Compaction
// Contract"). Tool, status, summary, the error's own fields and every short
// value, such as handles and artifact paths, stay; long strings and lists lose
// their ends first, and as the last resort the inner payload goes. The same r
// and limit give the same bytes, and a compact result compacts to itself.
func (r Result) Compact(limit int) Result {
	if r.fits(limit) {
		return r
	}
	for _, bound := range []struct{ text, list int }{{1024, 64}, {256, 16}, {96, 4}} {
		c := r
		c.Result = cutJSON(r.Result, bound.text, bound.list)
		if r.Error != nil {
			e := *r.Error
			e.Details = cutDetails(e.Details, bound.text, bound.list)
			c.Error = &e
		}
		if c.fits(limit) {
			return c
		}
	}
	c := r
	c.SummaryText = Clip(r.SummaryText, limit/8)
	if r.Result != nil {
		c.Result = json.RawMessage(`{"omitted":true}`)
	}
	if r.Error != nil {
		e := *r.Error
		e.Message, e.RecoveryHint, e.Details = Clip(e.Message, limit/4), Clip(e.RecoveryHint, limit/8), nil
		c.Error = &e
	}
	return c
}

func (r Result) fits(limit int) bool {
	data, err := encode(r)
	return err == nil && len(data) <= limit
}

func cutJSON(raw json.RawMessage, text, list int) json.RawMessage {
	var v any
	if raw == nil || json.Unmarshal(raw, &v) != nil {
		return raw
	}
	data, err := encode(cut(v, text, list))
	if err != nil {
		return raw
	}
	return data
}

func cutDetails(details map[string]any, text, list int) map[string]any {
	if details == nil {
		return nil
	}
	out, _ := cut(details, text, list).(map[string]any)
	return out
}

// cut returns v with bounded strings and lists.
func cut(v any, text, list int) any {
	switch v := v.(type) {
	case string:
		return Clip(v, text)
	case []any:
		out := make([]any, min(len(v), list))
		for i := range out {
			out[i] = cut(v[i], text, list)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, member := range v {
			out[k] = cut(member, text, list)
		}
		return out
	}
	return v
}
