package responses

import (
	"encoding/json"
	"strconv"
)

// object appends the keys of a JSON object to a buffer. It exists because
// encoding/json scans the output of every MarshalJSON again at each level
// above it: at the end of a stream, where a text stands in four events, that
// cost more than all of its deltas.
//
// The first error is kept; end reports it.
type object struct {
	buf   []byte
	first bool
	err   error
}

// begin opens an object at the end of dst.
func begin(dst []byte) *object { return &object{buf: append(dst, '{'), first: true} }

// end closes the object and returns the whole buffer.
func (o *object) end() ([]byte, error) {
	o.buf = append(o.buf, '}')
	return o.buf, o.err
}

func (o *object) key(key string) {
	if !o.first {
		o.buf = append(o.buf, ',')
	}
	o.first = false
	o.buf = append(o.buf, '"')
	o.buf = append(o.buf, key...)
	o.buf = append(o.buf, '"', ':')
}

func (o *object) str(key, s string) {
	o.key(key)
	o.buf = appendString(o.buf, s)
}

// optional writes s unless it is empty.
func (o *object) optional(key, s string) {
	if s != "" {
		o.str(key, s)
	}
}

// nullable writes s, or null when there is none.
func (o *object) nullable(key string, s *string) {
	if s == nil {
		o.raw(key, nullJSON)
		return
	}
	o.str(key, *s)
}

func (o *object) integer(key string, n int64) {
	o.key(key)
	o.buf = strconv.AppendInt(o.buf, n, 10)
}

func (o *object) boolean(key string, b bool) {
	o.key(key)
	o.buf = strconv.AppendBool(o.buf, b)
}

// raw writes JSON as it is.
func (o *object) raw(key, json string) {
	o.key(key)
	o.buf = append(o.buf, json...)
}

// number writes f, most often a small whole number, as encoding/json does.
func (o *object) number(key string, f float64) {
	if n := int64(f); float64(n) == f && n > -1e9 && n < 1e9 {
		o.integer(key, n)
		return
	}
	o.value(key, f)
}

// value writes anything through encoding/json.
func (o *object) value(key string, v any) {
	b, err := marshal(v)
	if err != nil && o.err == nil {
		o.err = err
	}
	o.key(key)
	o.buf = append(o.buf, b...)
}

// maybe writes *v, or null when there is none.
func maybe[T any](o *object, key string, v *T) {
	if v == nil {
		o.raw(key, nullJSON)
		return
	}
	o.value(key, v)
}

// jsonAppender encodes itself at the end of a buffer.
type jsonAppender interface {
	appendJSON(dst []byte) ([]byte, error)
}

// list writes a list, [] when it is empty.
func list[T jsonAppender](o *object, key string, elems []T) {
	o.key(key)
	var err error
	if o.buf, err = appendList(o.buf, elems); err != nil && o.err == nil {
		o.err = err
	}
}

func appendList[T jsonAppender](dst []byte, elems []T) ([]byte, error) {
	dst = append(dst, '[')
	for i, elem := range elems {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = elem.appendJSON(dst); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// AppendItem appends the JSON of an item, for a line that is made without
// encoding/json.
func AppendItem(dst []byte, item Item) ([]byte, error) { return item.appendJSON(dst) }

const nullJSON = "null"

// rawOr returns raw, checked and compacted, or fallback when there is none.
func rawOr(raw json.RawMessage, fallback string) any {
	if len(raw) == 0 {
		return json.RawMessage(fallback)
	}
	return raw
}
