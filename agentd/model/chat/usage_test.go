package chat

import (
	"encoding/json"
	"testing"

	"holon/test/expect"
)

// A total that a provider tells alone is not lost.
func TestUsageOfATotal(t *testing.T) {
	for text, want := range map[string]int64{
		`{"total_tokens":30}`: 30,
		`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":30}`:  30,
		`{"prompt_tokens":10,"completion_tokens":2,"total_tokens":30}`: 12,
		`{"total_tokens":-30}`: 0,
	} {
		var u usage
		expect.NoError(t, json.Unmarshal([]byte(text), &u))
		expect.Equal(t, text+": has a total", u.usage().TotalTokens, want)
	}
}
