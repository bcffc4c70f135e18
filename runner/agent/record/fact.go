package record

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

// fact is an event whose payload, or an object of it, is read by key. What has another type than the one asked for is
// absent.
type fact struct {
	*agentruntime.Event
	raws   json.RawMessage
	fields map[string]json.RawMessage // nil: not an object
}

func read(e *agentruntime.Event) fact { return fact{Event: e}.of(e.Payload) }

func (f fact) of(object json.RawMessage) fact {
	f.raws, f.fields = object, nil
	_ = json.Unmarshal(object, &f.fields) // a value that is not an object has no fields
	return f
}

// in returns the fact as it is in an object of the payload.
func (f fact) in(key string) fact { return f.of(f.fields[key]) }

// into sets what the payload says of a thing whose fields have its keys. Fields of which it says nothing stay. What a
// field refers to is overwritten, so that one that a model may hold has to be nil before.
func (f fact) into(thing any) {
	if f.fields != nil {
		_ = json.Unmarshal(f.raws, thing) // what has another type is left out
	}
}

func (f fact) id(kind agentruntime.ID) string { return clip(f.IDs[kind], maxID) }

// turn and at are the turn and the time of the event.
func (f fact) turn() string { return f.id(agentruntime.Turn) }
func (f fact) at() string   { return clip(f.Timestamp, maxID) }

func (f fact) text(key string) (s string) {
	_ = json.Unmarshal(f.fields[key], &s) // another type is none
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

func (f fact) number(key string) (n int64) {
	_ = json.Unmarshal(f.fields[key], &n) // another type is none
	return n
}

// ref is the id of a row that the event refers to.
func (f fact) ref(key string) string {
	var refs map[string]string
	_ = json.Unmarshal(f.Refs, &refs) // without them it is not known
	return clip(refs[key], maxID)
}

// raw returns a value of the payload, nil when it is absent.
func (f fact) raw(key string) json.RawMessage {
	if string(f.fields[key]) == "null" {
		return nil
	}
	return f.fields[key]
}

// status is the status of the event, unknown when the vocabulary does not have it.
func (f fact) status() string {
	if _, ok := agentruntime.Statuses[f.Status]; ok {
		return f.Status
	}
	return unknown
}

// clip cuts a text; an invalid last character becomes its replacement when it is encoded.
func clip(s string, most int) string { return s[:min(len(s), most)] }

// or returns the text, or unknown when there is none.
func or(s string) string {
	if s == "" {
		return unknown
	}
	return s
}
