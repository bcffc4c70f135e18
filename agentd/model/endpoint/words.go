package endpoint

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"

	"holon/agentd/model"
	"holon/internal/pattern"
)

// maxWords bounds what is shown of an error of no form that is known, in bytes.
const maxWords = 300

// maxDepth bounds how deep an error may be within its answer.
const maxDepth = 5

// Where the errors of servers have their text, and where an error within them, the first first.
var (
	wordKeys = []string{"message", "msg", "detail", "error_description", "error_message", "errorMessage", "Message",
		"status_msg", "error", "reason", "title"}
	innerKeys = []string{"error", "errors", "response", "detail", "message", "base_resp"}
)

// DecodeFailure reads error bodies and error events of any form. Of one that it does not know it has the beginning, and
// of a page its text.
func DecodeFailure(body []byte) (f Failure) {
	if gjson.ValidBytes(body) {
		f = failureOf(gjson.ParseBytes(body), maxDepth)
	}
	if f.Message == "" {
		f.Message = excerpt(body)
	}
	return f
}

// failureOf reads an error down to some depth.
func failureOf(v gjson.Result, depth int) (f Failure) {
	switch {
	case v.Type == gjson.String:
		f.Message = v.Str
	case depth > 0 && v.IsArray():
		return failureOfList(v.Array(), depth)
	case depth > 0 && v.IsObject():
		return failureOfObject(v, depth)
	}
	return f
}

// failureOfList reads a list of errors, which is one with all their texts.
func failureOfList(list []gjson.Result, depth int) (f Failure) {
	var texts []string
	for i, v := range list[:min(len(list), 5)] {
		each := failureOf(v, depth-1)
		if i == 0 {
			f = each
		}
		if each.Message != "" {
			texts = append(texts, each.Message)
		}
	}
	f.Message = strings.Join(texts, "; ")
	return f
}

func failureOfObject(v gjson.Result, depth int) (f Failure) {
	for _, key := range innerKeys {
		if inner := v.Get(key); inner.IsObject() || inner.IsArray() {
			if f = failureOf(inner, depth-1); f.Message != "" {
				break
			}
		}
	}
	for _, key := range wordKeys {
		if word := v.Get(key); f.Message == "" && word.Type == gjson.String {
			f.Message = word.Str
		}
	}
	if kind := v.Get("type").String(); f.Type == "" && kind != "error" {
		f.Type = kind
	}
	if f.Code == nil {
		f.Code = codeOf(v)
	}
	if raw := v.Get("metadata.raw"); raw.Type == gjson.String { // of the provider behind a router
		f.Message += ": " + DecodeFailure([]byte(raw.Str)).Message
	}
	if at := v.Get("loc"); at.IsArray() && f.Message != "" { // of a server that checks requests against types
		f.Message = strings.NewReplacer("[", "", "]", "", `"`, "", " ", "", ",", ".").Replace(at.Raw) + ": " + f.Message
	}
	return f
}

// codeOf returns the code of an error: a string, or a number, which may be the status.
func codeOf(v gjson.Result) any {
	for _, key := range []string{"code", "status_code", "status"} {
		if code := v.Get(key); code.Type == gjson.Number || key == "code" && code.Type == gjson.String {
			return code.Value()
		}
	}
	return nil
}

// markup is what stands in a page around its text.
var markup = pattern.Lazy(`(?is)<(?:script|style)\b.*?(?:</(?:script|style)>|$)|<[^>]*(?:>|$)`)

// excerpt returns the beginning of a body in one line, without markup: nothing of one that says nothing.
func excerpt(body []byte) string {
	body = bytes.TrimSpace(body)
	switch string(body) {
	case "", "null", "{}", "[]":
		return ""
	}
	if bytes.IndexByte(body, 0) >= 0 {
		return ""
	}
	text := strings.Join(strings.Fields(markup().ReplaceAllString(string(body[:min(len(body), 16<<10)]), " ")), " ")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "")
	}
	return text
}

// oddity is an event of a stream that does not belong to an answer. It fails an answer that has no end.
type oddity struct{ failure *model.Error }

func (o *oddity) Error() string { return o.failure.Error() }

// Odd is the error of Take for an event, and of Whole for an answer, in which nothing is known. One that reports a
// failure ends the answer; a stream goes on after all others.
func Odd(data []byte) error {
	if Reports(data, "error") || Reports(data, "0.error") {
		return EventError(DecodeFailure(data))
	}
	v := gjson.ParseBytes(data)
	if f := failureOf(v, maxDepth); f.Message != "" && v.IsObject() {
		return &oddity{EventError(f)}
	}
	return &oddity{Malformed("the provider sent what can't be read: %s", excerpt(data))}
}

// Reports reports whether there is an error at the path of an event.
func Reports(data []byte, path string) bool {
	switch gjson.GetBytes(data, path).Raw {
	case "", "null", "{}", "[]", `""`, "false", "0":
		return false
	}
	return true
}
