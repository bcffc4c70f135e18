package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"time"
)

// row is a row of a result, whose columns are taken from left to right. err keeps
// the first column of an unexpected type.
type row struct {
	values []driver.Value
	next   int
	err    error
}

func (r *row) value() driver.Value {
	r.next++
	return r.values[r.next-1]
}

func (r *row) text() string {
	v := r.value()
	s, ok := v.(string)
	if !ok {
		r.damaged("text", v)
	}
	return s
}

func (r *row) integer() int64 {
	v := r.value()
	n, ok := v.(int64)
	if !ok {
		r.damaged("a number", v)
	}
	return n
}

func (r *row) flag() bool { return r.integer() != 0 }

func (r *row) time() time.Time { return time.UnixMilli(r.integer()).UTC() }

// timeOrNil takes a time that may be absent.
func (r *row) timeOrNil() *time.Time {
	if r.values[r.next] == nil {
		r.next++
		return nil
	}
	t := r.time()
	return &t
}

// textOrNone takes text that may be absent: "".
func (r *row) textOrNone() string {
	if r.values[r.next] == nil {
		r.next++
		return ""
	}
	return r.text()
}

// integerOrNone takes a number that may be absent: 0.
func (r *row) integerOrNone() int64 {
	if r.values[r.next] == nil {
		r.next++
		return 0
	}
	return r.integer()
}

// raw takes text that is JSON and may be absent.
func (r *row) raw() json.RawMessage {
	text := r.textOrNone()
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// record takes text that is the JSON of a record.
func (r *row) record(into any) {
	if text := r.text(); r.err == nil {
		r.decode([]byte(text), into)
	}
}

func (r *row) decode(data []byte, into any) {
	if err := json.Unmarshal(data, into); err != nil {
		r.err = unreadable(fmt.Errorf("decode %T: %w", into, err))
	}
}

// sound takes text that is the JSON of a record, which may be damaged: then it
// is false, and the row can be read on.
func (r *row) sound(into any) bool {
	text, ok := r.value().(string)
	return ok && json.Unmarshal([]byte(text), into) == nil
}

func (r *row) damaged(want string, v driver.Value) {
	if r.err == nil {
		r.err = unreadable(fmt.Errorf("column %d holds a %T and no %s", r.next, v, want))
	}
}

// encode returns a record as the text of its column.
func encode(record any) (string, error) {
	data, err := json.Marshal(record)
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", record, err)
	}
	return string(data), nil
}

func millis(t time.Time) driver.Value { return t.UnixMilli() }

func millisOrNil(t *time.Time) driver.Value {
	if t == nil {
		return nil
	}
	return t.UnixMilli()
}

// textOrNil is text that is absent when it is empty, which is cheaper to read.
func textOrNil(text string) driver.Value {
	if text == "" {
		return nil
	}
	return text
}

func number(flag bool) driver.Value {
	if flag {
		return int64(1)
	}
	return int64(0)
}

// kept is a time as it is kept: UTC, whole milliseconds.
func kept(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func keptOrNil(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	k := kept(*t)
	return &k
}
