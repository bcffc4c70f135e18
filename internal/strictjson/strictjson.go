// Package strictjson refuses JSON that encoding/json accepts and another reader would see differently.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Check refuses what is no JSON, duplicate keys, invalid UTF-8, and nesting of more than depth levels. What follows the
// first value is not looked at.
func Check(raw []byte, depth int) error {
	if !utf8.Valid(raw) {
		return errors.New("invalid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return check(dec, depth, depth)
}

// check reads one value with what is in it.
func check(dec *json.Decoder, left, depth int) error {
	tok, err := dec.Token()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	if err != nil || tok != json.Delim('{') && tok != json.Delim('[') {
		return err
	}
	if left == 0 {
		return fmt.Errorf("nested deeper than %d levels", depth)
	}
	keys := make(map[string]bool)
	for dec.More() {
		if tok == json.Delim('{') {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			name := key.(string) // the decoder takes no other key
			if keys[name] {
				return fmt.Errorf("duplicate key %.100q", name)
			}
			keys[name] = true
		}
		if err := check(dec, left-1, depth); err != nil {
			return err
		}
	}
	if _, err = dec.Token(); errors.Is(err, io.EOF) { // the end of the object or list
		return io.ErrUnexpectedEOF
	}
	return err
}
