package gateway

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"holon/responses/stream"
)

const (
	// bytesPerToken is for estimates: text of programs has fewer, prose more.
	bytesPerToken = 4
	// maxTokens bounds what is believed of one request: no window is larger.
	maxTokens = 16 << 20
	// slack is what a provider may add to a request unseen, prompts of its own and
	// the frame of tools, and thoughts to what it shows of an answer.
	slack, thoughts = 64 << 10, 1 << 20
	// Floors of what is believed: no tokenizer makes fewer tokens of text in the long
	// run, and no provider makes four events of one token, but for some at its ends.
	mostPerToken, eventsPerToken, otherEvents = 16, 4, 64
	// maxAnswer bounds an answer that is not a stream, in which usage is looked for.
	maxAnswer = stream.MaxEvent
)

// usageReader reads the usage that a provider reports in its answer: in the events of a stream, or in the one JSON
// object. It takes the largest number of each field: streams report usage more than once, with growing numbers.
type usageReader struct {
	stream bool // the answer is a stream of events
	bytes  int64
	pieces *io.PipeWriter
	done   chan struct{} // closed when all pieces were read

	events   int64
	reported reportedUsage
	found    bool
	doubt    string // why a claim was refused, of which the rest does not count
}

// newUsageReader starts a reader, which ends with close.
func newUsageReader(contentType string) *usageReader {
	pieces, writer := io.Pipe()
	t := &usageReader{stream: strings.HasPrefix(contentType, "text/event-stream"), pieces: writer,
		done: make(chan struct{})}
	go func() {
		defer close(t.done)
		t.read(pieces)
		_, _ = io.Copy(io.Discard, pieces) // what follows a part that is too large
	}()
	return t
}

// feed takes the next piece. It keeps no reference to it.
func (t *usageReader) feed(piece []byte) {
	t.bytes += int64(len(piece))
	_, _ = t.pieces.Write(piece) // it is read to its end
}

// close ends the answer. It may be called more than once.
func (t *usageReader) close() {
	_ = t.pieces.Close()
	<-t.done
}

func (t *usageReader) read(pieces io.Reader) {
	r := bufio.NewReader(pieces)
	start, err := r.Peek(1)
	for ; err == nil && strings.IndexByte(" \t\r\n", start[0]) >= 0; start, err = r.Peek(1) {
		_, _ = r.Discard(1) // blanks keep connections alive
	}
	if err == nil { // it shows the form better than the content type
		t.stream = start[0] != '{' && start[0] != '['
	}
	if !t.stream {
		if data, err := io.ReadAll(io.LimitReader(r, maxAnswer)); err == nil {
			t.take(data)
		}
		return
	}
	for data, err := range stream.NewDecoder(r, stream.SSE).Data() {
		if err != nil {
			return
		}
		t.events++
		t.take(data)
	}
}

// count is a reported number of tokens: the largest of those under one key. A value
// that is not a number is ignored.
type count struct {
	n     int64
	given bool
	bad   bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *count) UnmarshalJSON(text []byte) error {
	if bytes.IndexByte([]byte(`-0123456789"`), text[0]) < 0 {
		return nil
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	c.given = true
	if c.bad = c.bad || err != nil || n < 0 || n > maxTokens; !c.bad {
		c.n = max(c.n, n)
	}
	return nil
}

// reportedUsage has the fields that contracts have for usage.
type reportedUsage struct {
	InputTokens  count `json:"input_tokens"`
	OutputTokens count `json:"output_tokens"`
	TotalTokens  count `json:"total_tokens"`
	InputDetails struct {
		Cached count `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails struct {
		Reasoning count `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`

	// Messages: in addition to input_tokens, not part of it.
	CacheCreation count `json:"cache_creation_input_tokens"`
	CacheRead     count `json:"cache_read_input_tokens"`

	// Chat Completions.
	Prompt        count `json:"prompt_tokens"`
	Completion    count `json:"completion_tokens"`
	PromptDetails struct {
		Cached count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	PromptHits count `json:"prompt_cache_hit_tokens"` // some say it here
}

func (s *reportedUsage) counts() []*count {
	return []*count{&s.InputTokens, &s.OutputTokens, &s.Prompt, &s.Completion, &s.TotalTokens, &s.InputDetails.Cached,
		&s.OutputDetails.Reasoning,
		&s.CacheCreation, &s.CacheRead, &s.PromptDetails.Cached, &s.CompletionDetails.Reasoning, &s.PromptHits}
}

// reporting is what may hold usage: an answer, or an event.
type reporting struct {
	Usage    *reportedUsage                   `json:"usage"`
	Response struct{ Usage *reportedUsage }   `json:"response"` // Responses
	Message  struct{ Usage *reportedUsage }   `json:"message"`  // Messages
	XGroq    struct{ Usage *reportedUsage }   `json:"x_groq"`
	Choices  []struct{ Usage *reportedUsage } `json:"choices"` // some put it here
}

// take reads an answer or an event and keeps what is larger than before.
func (t *usageReader) take(data []byte) {
	if !bytes.Contains(data, []byte(`"usage"`)) {
		return
	}
	var all reporting
	err := json.Unmarshal(data, &all)
	if _, kind := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !kind { // NaN, for one
		t.doubts("it is not JSON")
		return
	}
	t.add(all.Usage)
	t.add(all.Response.Usage)
	t.add(all.Message.Usage)
	t.add(all.XGroq.Usage)
	for _, choice := range all.Choices {
		t.add(choice.Usage)
	}
}

func (t *usageReader) add(u *reportedUsage) {
	if u == nil {
		return
	}
	claimed, kept := u.counts(), t.reported.counts()
	if !slices.ContainsFunc(claimed[:4], func(c *count) bool { return c.given }) {
		return
	}
	t.found = true
	for i, c := range claimed {
		if c.bad {
			t.doubts("a count is negative, too large or no whole number")
		}
		kept[i].n, kept[i].given = max(kept[i].n, c.n), kept[i].given || c.given
	}
	if u.TotalTokens.given && u.TotalTokens.n < max(u.InputTokens.n+u.OutputTokens.n, u.Prompt.n+u.Completion.n) {
		t.doubts("the total is less than its parts")
	}
}

func (t *usageReader) doubts(why string) {
	if t.doubt == "" {
		t.doubt = why
	}
}

// tokens returns what the answer to a request took. estimated says that the
// provider did not tell, or not to the end, or not what can be believed: doubt
// says why.
func (t *usageReader) tokens(sent *requestBody, whole bool) (u Tokens, estimated bool, doubt string) {
	s, size := &t.reported, int64(len(sent.data))
	u.CacheWrite = s.CacheCreation.n
	u.CacheRead = max(s.InputDetails.Cached.n, s.CacheRead.n, s.PromptDetails.Cached.n, s.PromptHits.n)
	u.Reasoning = max(s.OutputDetails.Reasoning.n, s.CompletionDetails.Reasoning.n)
	u.Input = max(s.InputTokens.n+s.CacheCreation.n+s.CacheRead.n, s.Prompt.n)
	u.Output = max(s.OutputTokens.n, s.Completion.n, s.TotalTokens.n-u.Input) // some count thoughts in the total only
	if most := size + slack; u.Input > most && !sent.wide {
		t.doubts(fmt.Sprintf("%d input tokens of %d bytes", u.Input, size))
		u.Input = 0
	}
	if u.Output > t.bytes+thoughts {
		t.doubts(fmt.Sprintf("%d output tokens in %d bytes", u.Output, t.bytes))
		u.Output = 0
	}
	least := Tokens{Input: 1 + sent.text/mostPerToken, Output: max(0, t.events-otherEvents) / eventsPerToken}
	if t.found && t.doubt == "" && (u.Input < least.Input || u.Output < least.Output) {
		t.doubts(fmt.Sprintf("%d input and %d output tokens, where there were at least %d and %d", u.Input, u.Output,
			least.Input, least.Output))
		u.Input, u.Output = max(u.Input, least.Input), max(u.Output, least.Output)
		return u, true, t.doubt
	}
	if t.found && whole && t.doubt == "" {
		return u, false, ""
	}
	t.estimate(&u, size)
	u.CacheRead, u.CacheWrite = min(u.CacheRead, u.Input), min(u.CacheWrite, u.Input)
	return u, true, t.doubt
}

// estimate fills in what is not known, or not believed, by sizes.
func (t *usageReader) estimate(u *Tokens, size int64) {
	if u.Input == 0 || t.doubt != "" {
		u.Input = max(u.Input, min(maxTokens, (size+bytesPerToken-1)/bytesPerToken))
	}
	if t.stream { // about a token an event
		u.Output = max(u.Output, t.events)
	} else if u.Output == 0 || t.doubt != "" {
		u.Output = max(u.Output, min(maxTokens, (t.bytes+bytesPerToken-1)/bytesPerToken))
	}
}
