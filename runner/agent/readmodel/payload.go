package readmodel

import (
	"encoding/json"
	"time"

	"holon/responses/agentruntime"
)

// Bounds of what a fold keeps of one text.
const (
	maxID   = 256
	maxText = 512
)

// fact is an event whose payload is read by key. What has another type than the one asked for is absent.
type fact struct {
	*agentruntime.Event
	fields map[string]any
}

func read(e *agentruntime.Event) fact {
	f := fact{e, nil}
	_ = json.Unmarshal(e.Payload, &f.fields) // a payload that is no object says nothing
	return f
}

func (f fact) id(kind agentruntime.ID) string { return clip(f.IDs[kind], maxID) }

func (f fact) text(key string) string {
	s, _ := f.fields[key].(string)
	return clip(s, maxText)
}

// time is a time in the form of timestamps of events; "" when there is none.
func (f fact) time(key string) string {
	at, err := time.Parse(time.RFC3339Nano, f.text(key))
	if err != nil {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z")
}

func (f fact) number(key string) int64 {
	n, _ := f.fields[key].(float64)
	if n < -1<<53 || n > 1<<53 {
		return 0
	}
	return int64(n)
}

func (f fact) flag(key string) *bool {
	if b, ok := f.fields[key].(bool); ok {
		return &b
	}
	return nil
}

// ref is the id of a row that the event refers to.
func (f fact) ref(key string) string {
	var refs map[string]string
	_ = json.Unmarshal(f.Refs, &refs) // without them it is not known
	return clip(refs[key], maxID)
}

// in returns the fact as it is in an object of the payload.
func (f fact) in(key string) fact {
	inner, _ := f.fields[key].(map[string]any)
	return fact{f.Event, inner}
}

// raw returns a value of the payload, nil when it is absent or too large to keep.
func (f fact) raw(key string) json.RawMessage {
	value, ok := f.fields[key]
	if !ok || value == nil {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil || len(text) > 4*maxText {
		return nil
	}
	return text
}

// status is the status of the event, unknown when the vocabulary does not have it.
func (f fact) status() string {
	if _, ok := agentruntime.Statuses[f.Status]; ok {
		return f.Status
	}
	return Unknown
}

// clip cuts a text; an invalid last character becomes its replacement when it is encoded.
func clip(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return s
}

// or returns the text, or unknown when there is none.
func or(s string) string {
	if s == "" {
		return Unknown
	}
	return s
}
