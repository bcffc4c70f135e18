package endpoint

import (
	"encoding/json"
	"testing"
)

// What a provider sent wrong is told in words about JSON, not in those of Go's parser.
func TestUnreadable(t *testing.T) {
	for text, want := range map[string]string{
		`{not json`:    "it is not JSON",
		`{`:            "it is not JSON",
		`{"id": true}`: "its id is of the wrong type: bool",
	} {
		var v struct {
			ID string `json:"id"`
		}
		if got := Unreadable(json.Unmarshal([]byte(text), &v)); got != want {
			t.Errorf("of %s it says %q, want %q", text, got, want)
		}
	}
}
