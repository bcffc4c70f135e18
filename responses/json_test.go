package responses

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCheckShape(t *testing.T) {
	for data, ok := range map[string]bool{
		"[" + strings.Repeat("{},", maxValues-2) + "{}]":      true,
		"[" + strings.Repeat("{},", maxValues-1) + "{}]":      false,
		"[" + strings.Repeat("1,", maxValues) + "1]":          false,
		`["` + strings.Repeat(`,{[\"`, maxValues) + `"]`:      true,
		strings.Repeat("[", 1000) + strings.Repeat("]", 1000): false,
	} {
		if err := CheckShape([]byte(data)); (err == nil) != ok {
			t.Errorf("%.20s… of %d bytes: %v", data, len(data), err)
		}
	}
}

func TestCheckDepth(t *testing.T) {
	at := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	for data, ok := range map[string]bool{at: true, "[" + at + "]": false, `"` + strings.Repeat("[", 1000) + `"`: true,
		`"\"` + strings.Repeat("{", 1000) + `"`: true, strings.Repeat(`{"a":`, 300): false, "": true} {
		if err := CheckDepth([]byte(data)); (err == nil) != ok {
			t.Errorf("CheckDepth(%.20s…): %v", data, err)
		}
	}
	if json.Valid([]byte(at)) != true {
		t.Error("the deepest JSON that is allowed is no JSON")
	}
}
