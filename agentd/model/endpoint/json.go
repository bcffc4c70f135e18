package endpoint

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"holon/agentd/model"
)

// Members calls member for each member of a JSON object, in order, until it
// returns false. It reports whether data is exactly one valid object and all of
// its members were accepted.
//
// Deltas, the most frequent events by far, are read with it: encoding/json takes
// four times as long for one, the official clients' event types thirty to seventy times.
func Members(data []byte, member func(key string, value gjson.Result) bool) bool {
	object := gjson.ParseBytes(data)
	if !gjson.ValidBytes(data) || !object.IsObject() {
		return false
	}
	return AllMembers(object, member)
}

// AllMembers is [Members] for an object within a valid one.
func AllMembers(object gjson.Result, member func(key string, value gjson.Result) bool) (ok bool) {
	ok = object.IsObject()
	object.ForEach(func(key, value gjson.Result) bool {
		ok = ok && member(key.Str, value)
		return ok
	})
	return ok
}

// Text returns the value of a JSON string as encoding/json reads it.
func Text(v gjson.Result) (text model.WireText, ok bool) {
	if v.Type != gjson.String {
		return "", false
	}
	if !strings.Contains(v.Raw, `\`) && utf8.ValidString(v.Str) {
		return model.WireText(v.Str), true
	}
	err := json.Unmarshal([]byte(v.Raw), &text)
	return text, err == nil
}

// Index returns the value of a JSON number that is a whole number.
func Index(v gjson.Result) (n int, ok bool) {
	if v.Type != gjson.Number {
		return 0, false
	}
	n, err := strconv.Atoi(v.Raw)
	return n, err == nil
}
