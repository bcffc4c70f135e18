package ledger

import (
	"reflect"
	"strings"
	"sync"
	"time"

	"holon/responses"
	"holon/responses/turns"
)

// Rows of the ledger stand in events, read models and the answers of the control plane. Their times look everywhere as
// the timestamps of events do: in UTC, with three decimals.

// MarshalJSON writes times as events have theirs, as do those below.
func (m Message) MarshalJSON() ([]byte, error)         { return withTimes(m) }
func (e Entry) MarshalJSON() ([]byte, error)           { return withTimes(e) }
func (w Wait) MarshalJSON() ([]byte, error)            { return withTimes(w) }
func (w WakeSource) MarshalJSON() ([]byte, error)      { return withTimes(w) }
func (t Timer) MarshalJSON() ([]byte, error)           { return withTimes(t) }
func (t Trigger) MarshalJSON() ([]byte, error)         { return withTimes(t) }
func (t Task) MarshalJSON() ([]byte, error)            { return withTimes(t) }
func (w WorkItem) MarshalJSON() ([]byte, error)        { return withTimes(w) }
func (d DeliverySummary) MarshalJSON() ([]byte, error) { return withTimes(d) }
func (b Brief) MarshalJSON() ([]byte, error)           { return withTimes(b) }
func (n Notification) MarshalJSON() ([]byte, error)    { return withTimes(n) }
func (b OperatorBinding) MarshalJSON() ([]byte, error) { return withTimes(b) }
func (d Delivery) MarshalJSON() ([]byte, error)        { return withTimes(d) }
func (e ExpiredOutput) MarshalJSON() ([]byte, error)   { return withTimes(e) }
func (t Turn) MarshalJSON() ([]byte, error)            { return withTimes(t) }
func (e Event) MarshalJSON() ([]byte, error)           { return withTimes(e) }
func (a Agent) MarshalJSON() ([]byte, error)           { return withTimes(a) }
func (s AgentState) MarshalJSON() ([]byte, error)      { return withTimes(s) }
func (p Progress) MarshalJSON() ([]byte, error)        { return withTimes(p) }
func (a Attempt) MarshalJSON() ([]byte, error)         { return withTimes(a) }
func (w Workspace) MarshalJSON() ([]byte, error)       { return withTimes(w) }
func (t Tree) MarshalJSON() ([]byte, error)            { return withTimes(t) }
func (a Attachment) MarshalJSON() ([]byte, error)      { return withTimes(a) }
func (a ActiveWorkspace) MarshalJSON() ([]byte, error) { return withTimes(a) }
func (c Command) MarshalJSON() ([]byte, error)         { return withTimes(c) }
func (f Failure) MarshalJSON() ([]byte, error)         { return withTimes(f) }
func (h WakeHint) MarshalJSON() ([]byte, error)        { return withTimes(h) }
func (n WakeNote) MarshalJSON() ([]byte, error)        { return withTimes(n) }
func (e Episode) MarshalJSON() ([]byte, error)         { return withTimes(e) }

// withTimes encodes a struct as responses.Marshal does, except for the form of the times that are its own fields.
func withTimes(row any) ([]byte, error) {
	from := reflect.ValueOf(row)
	to := reflect.New(encodedAs(from.Type())).Elem()
	for i := range from.NumField() {
		switch value := from.Field(i).Interface().(type) {
		case time.Time:
			to.Field(i).Set(reflect.ValueOf(turns.At(value)))
		case *time.Time:
			to.Field(i).Set(reflect.ValueOf(turns.AtOptional(value)))
		default:
			to.Field(i).Set(from.Field(i))
		}
	}
	return responses.Marshal(to.Interface())
}

var encodings sync.Map // of types of rows, see encodedAs

// encodedAs is the type of a row with its times as [turns.Time], and without its methods.
func encodedAs(row reflect.Type) reflect.Type {
	if known, ok := encodings.Load(row); ok {
		return known.(reflect.Type)
	}
	fields := reflect.VisibleFields(row)
	for i, f := range fields {
		switch f.Type {
		case reflect.TypeFor[time.Time](), reflect.TypeFor[*time.Time]():
			fields[i].Type = reflect.TypeFor[turns.Time]()
			fields[i].Tag = reflect.StructTag(strings.Replace(string(f.Tag), ",omitempty", ",omitzero", 1))
		}
	}
	encoded := reflect.StructOf(fields)
	encodings.Store(row, encoded)
	return encoded
}
