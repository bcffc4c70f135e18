package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/test/expect"

	"github.com/google/go-cmp/cmp"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	const sse, plain = "text/event-stream; charset=utf-8", "application/json"
	for _, tc := range []struct {
		name, contentType, answer string
		want                      Tokens
		estimated                 bool
	}{
		{"responses", sse, "event: response.completed\ndata: " +
			"{\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":30,\"input_tokens_details\":" +
			"{\"cached_tokens\":20},\"output_tokens\":7,\"output_tokens_details\":{\"reasoning_tokens\":5}," +
			"\"total_tokens\":37}}}\n\n",
			Tokens{Input: 30, CacheRead: 20, Output: 7, Reasoning: 5}, false},
		{"responses in one piece", plain, `{"usage" : { "input_tokens": 3, "output_tokens": 4 }}`,
			Tokens{Input: 3, Output: 4}, false},
		{"messages", sse, `data: {"type":"message_start","message":{"usage":{"input_tokens":10,` +
			`"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":1}}}` +
			"\n\n" + `data: {"type":"message_delta","usage":{"output_tokens":55}}` + "\n\n",
			Tokens{Input: 1110, CacheRead: 1000, CacheWrite: 100, Output: 55}, false},
		{"chat", sse, `data: {"choices":[],"usage":null}` + "\n\n" +
			`data: {"usage":{"prompt_tokens":12,"completion_tokens":8,"total_tokens":20,"prompt_tokens_details":` +
			`{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":6}}}` + "\n\ndata: [DONE]\n\n",
			Tokens{Input: 12, CacheRead: 4, Output: 8, Reasoning: 6}, false},
		{"chat with hits", plain, `{"usage":{"prompt_tokens":12,"completion_tokens":8,"prompt_cache_hit_tokens":11}}`,
			Tokens{Input: 12, CacheRead: 11, Output: 8}, false},
		{"a growing count", sse, `data: {"usage":{"prompt_tokens":12,"completion_tokens":1}}` + "\n\n" +
			`data: {"usage":{"prompt_tokens":12,"completion_tokens":2}}` + "\n\n", Tokens{Input: 12, Output: 2}, false},
		{"no usage in a stream", sse, "data: 1\n\ndata: 2\n\ndata: 3\n\n", Tokens{Input: 25, Output: 3}, true},
		{"no usage in one piece", plain, `{"output":"` + strings.Repeat("a", 28) + `"}`, Tokens{Input: 25, Output: 11},
			true},
		{"a stream of another content type", plain, `data: {"usage":{"prompt_tokens":12,"completion_tokens":2}}` + "\n\n",
			Tokens{Input: 12, Output: 2}, false},
		{"blanks first", plain, "\n\n\n" + `{"usage":{"input_tokens":3,"output_tokens":4}}`,
			Tokens{Input: 3, Output: 4}, false},
		{"negative", plain, `{"usage":{"input_tokens":-3,"output_tokens":-4}}`, Tokens{Input: 25, Output: 12}, true},
		{"beyond belief", plain, `{"usage":{"input_tokens":9000000000000000000,"output_tokens":4}}`,
			Tokens{Input: 25, Output: 16}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 5, 7, len(tc.answer)} {
				tally := newUsageReader(tc.contentType)
				feed(tally, tc.answer, size)
				got, estimated, _ := tally.tokens(bodyOfSize(100), true)
				if diff := cmp.Diff(tc.want, got); diff != "" || estimated != tc.estimated {
					t.Errorf("pieces of %d: estimated %t (-want +got):\n%s", size, estimated, diff)
				}
			}
		})
	}
	broken := newUsageReader(sse)
	feed(broken, `data: {"message":{"usage":{"input_tokens":10,"output_tokens":1}}}`+"\n\n"+
		strings.Repeat("data: {}\n\n", 20), 1000)
	if got, estimated, _ := broken.tokens(bodyOfSize(100), false); got != (Tokens{Input: 10, Output: 21}) ||
		!estimated {
		t.Errorf("an answer that broke off: %+v, %t", got, estimated)
	}
}

func feed(t *usageReader, text string, size int) {
	for len(text) > 0 {
		n := min(size, len(text))
		t.feed([]byte(text[:n]))
		text = text[n:]
	}
	t.close()
}

func bodyOfSize(n int) *requestBody { return &requestBody{data: make([]byte, n)} }

// The usage of the providers' streams is what they say.
func TestUsageOfStreams(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Tokens{
		"messages/text":  {Input: 12, Output: 30},
		"chat/reasoning": {Input: 18, Output: 219, Reasoning: 205},
		"chat/text":      {Input: 16, Output: 300},
		"responses/text": {Input: 16, Output: 9, CacheRead: 4},
	} {
		stream, err := os.ReadFile(filepath.Join("..", "..", "test", "streams", filepath.FromSlash(name)+".ndjson"))
		expect.NoError(t, err)
		tally := newUsageReader("text/event-stream")
		for line := range strings.Lines(string(stream)) {
			tally.feed([]byte("data: " + strings.TrimSpace(line) + "\n\n"))
		}
		tally.close()
		got, estimated, _ := tally.tokens(bodyOfSize(1<<20), true)
		if estimated {
			t.Errorf("%s: the tokens are estimated, want those that the provider counted", name)
		}
		expect.Equal(t, name+": the answer", got, want)
	}
}
