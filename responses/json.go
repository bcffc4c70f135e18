package responses

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"holon/internal/visible"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds the nesting of JSON that is accepted from outside. Real
// requests stay below 30; the limit keeps recursive code within a small stack.
const maxDepth = 256

// encode returns the JSON of v. Values that came as JSON are compacted and otherwise stay as they are. Invalid UTF-8,
// which a model may emit, is replaced.
func encode(v any) ([]byte, error) { return appendJSON(nil, v) }

// appendJSON is encode at the end of a buffer.
func appendJSON(dst []byte, v any) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	err := json.MarshalWrite(b, v, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true),
		jsontext.PreserveRawStrings(true), json.Deterministic(true))
	return b.Bytes(), err
}

// Marshal is json.Marshal of the standard library without the escapes that JSON within a web page needs, which cost
// tokens and hide source code.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := stdjson.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// AppendItem appends the JSON of an item.
func AppendItem(dst []byte, item Item) ([]byte, error) { return appendJSON(dst, item) }

// AppendString appends s as a JSON string. Invalid UTF-8 is replaced.
func AppendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // the error is about what it replaces
	return dst
}

// Unmarshal reads JSON from outside. A member counts only under its exact name. Errors are *Error values that name the
// place within data.
func Unmarshal(data []byte, v any, options ...json.Options) error {
	return decodeError(json.Unmarshal(data, v, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true),
		json.JoinOptions(options...)))
}

// DecodeStrict reads the body of a request that is ours alone: a key that v does not have is an error.
func DecodeStrict(body []byte, v any) error {
	if err := CheckBody(body); err != nil {
		return err
	}
	return Unmarshal(body, v, json.RejectUnknownMembers(true))
}

// decodeError turns an error of the decoder into one that names the field; nil stays nil.
func decodeError(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return syntaxError(e)
	}
	s, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return within("", err)
	}
	param := paramOf(s.JSONPointer)
	switch {
	case s.Err == json.ErrUnknownName:
		return Invalid(param, CodeUnsupportedParameter, param+" is not offered by this server")
	case s.Err != nil && errors.As(s.Err, new(*Error)):
		return within(param, s.Err)
	}
	want, got := wanted(param, s.GoType, s.JSONValue), found(s)
	return Invalid(param, CodeInvalidValue, fmt.Sprintf("%s must be %s, not %s", orBody(param), want, got))
}

func syntaxError(e *jsontext.SyntacticError) error {
	if errors.Is(e, jsontext.ErrDuplicateName) {
		param := paramOf(e.JSONPointer)
		return Invalid(param, CodeInvalidJSON, param+" is repeated")
	}
	return Invalid("", CodeInvalidJSON, fmt.Sprintf("the JSON is malformed at byte %d: %v", e.ByteOffset, e.Err))
}

// within prefixes the field that err names with an outer path.
func within(path string, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return Invalid(path, CodeInvalidJSON, "the JSON cannot be read: "+err.Error())
	}
	out := *e
	out.Param = joinPath(path, e.Param)
	if rest, ok := strings.CutPrefix(e.Message, orBody(e.Param)); ok {
		out.Message = orBody(out.Param) + rest // an index says nothing without what it is in
	}
	return &out
}

// paramOf writes a pointer as clients write a path: input[0].content. A name of digits reads as an index.
func paramOf(pointer jsontext.Pointer) (param string) {
	for token := range pointer.Tokens() {
		if _, err := strconv.ParseUint(token, 10, 32); err == nil {
			param += "[" + token + "]"
		} else {
			param = schemaPath(param, token)
		}
	}
	return param
}

func joinPath(outer, inner string) string {
	if outer == "" || inner == "" || strings.HasPrefix(inner, "[") {
		return outer + inner
	}
	return outer + "." + inner
}

func orBody(param string) string {
	if param == "" {
		return "the value"
	}
	return param
}

// wanted names the JSON that a Go type is read from. number is the number that does not fit it, if it is one.
func wanted(param string, t reflect.Type, number jsontext.Value) string {
	want := "an integer"
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map, reflect.Pointer, reflect.Interface:
		return "an object"
	case reflect.Float64, reflect.Float32:
		want = "a number"
	}
	if number.Kind() != '0' {
		return want
	}
	limits, documented := ranges[param]
	switch fraction := bytes.ContainsAny(number, ".eE"); {
	case documented && fraction:
		return strings.Replace(limits, "an integer", "an integer in digits", 1)
	case documented:
		return limits
	case want == "a number":
		return "a number of at most 1.8e308"
	case fraction:
		return "an integer in digits"
	}
	return "an integer of at most 9223372036854775807"
}

// found names the JSON that an error is about: a number that does not fit as it was written, of anything else the type.
func found(s *json.SemanticError) string {
	if s.JSONKind == '0' && len(s.JSONValue) > 0 && isNumber(s.GoType.Kind()) {
		return visible.Clip(string(s.JSONValue), 32)
	}
	return kindName(s.JSONKind)
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '[':
		return "an array"
	case '{':
		return "an object"
	case '0':
		return "a number"
	}
	return "a string"
}

func isNumber(k reflect.Kind) bool { return reflect.Int <= k && k <= reflect.Float64 }

// CheckBody is CheckStrict for the body of a request.
func CheckBody(body []byte) error { return CheckStrict(body, maxDepth) }

// CheckDepth refuses JSON nested deeper than maxDepth without decoding it. What is malformed is left to the decoder.
func CheckDepth(data []byte) error { return check(data, maxDepth, len(data), true) }

// CheckShape is CheckDepth for text that is not trusted: it refuses more than maxValues values, too.
func CheckShape(data []byte) error { return check(data, maxDepth, maxValues, true) }

// CheckStrict refuses malformed JSON, nesting deeper than depth, and what two readers may see differently: repeated
// names and invalid UTF-8. Half of a surrogate pair in an escape passes: programs that cut texts by UTF-16 write it.
func CheckStrict(data []byte, depth int) error {
	if !utf8.Valid(data) {
		return Invalid("", CodeInvalidJSON, "the JSON is not valid UTF-8")
	}
	return check(data, depth, len(data), false)
}

func check(data []byte, depth, most int, lax bool) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(lax))
	for values := 0; values <= most; {
		token, err := dec.ReadToken()
		if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok && !lax {
			return syntaxError(e)
		} else if err != nil { // its end, or what the decoder will refuse
			return nil
		}
		level := dec.StackDepth()
		if level > depth {
			return Invalid("", CodeInvalidJSON, fmt.Sprintf("the JSON is nested deeper than %d levels", depth))
		}
		in, length := dec.StackIndex(level)
		isName := in == '{' && length%2 == 1
		if kind := token.Kind(); !isName && kind != '}' && kind != ']' {
			values++
		}
	}
	return Invalid("", CodeInvalidJSON, fmt.Sprintf("the JSON has more than %d values", most))
}

// isNull reports whether raw is absent or the JSON null.
func isNull(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}
