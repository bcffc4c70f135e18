package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	// maxUsage bounds a usage object in bytes.
	maxUsage = 8 << 10
)

// usageReader reads the usage that a provider reports from an answer that passes by in
// pieces of any size. It looks for objects under the key "usage", which all contracts
// have, and takes the largest number of each field: streams report usage more than
// once, with growing numbers. Text in a string cannot pass for usage, since its quotes
// are escaped.
type usageReader struct {
	stream   bool // the answer is a stream of events
	lines    int64
	bytes    int64
	reported reportedUsage
	found    bool
	doubt    string // why a claim was refused, of which the rest does not count

	state usageState
	tail  []byte // the end of the last piece, while the key is looked for
	json  []byte // the object so far
	depth int
	str   bool // within a string of the object
	esc   bool // behind a backslash
}

type usageState uint8

const (
	seekKey usageState = iota
	seekColon
	seekBrace
	inObject
)

var (
	usageKey = []byte(`"usage"`)
	lineEnd  = []byte("\n")
)

func newUsageReader(contentType string) *usageReader {
	return &usageReader{stream: strings.HasPrefix(contentType, "text/event-stream")}
}

// feed takes the next piece. It keeps no reference to it.
func (t *usageReader) feed(piece []byte) {
	t.bytes += int64(len(piece))
	if t.stream {
		t.lines += int64(bytes.Count(piece, lineEnd))
	}
	for len(piece) > 0 {
		if t.state == seekKey {
			piece = t.seek(piece)
			continue
		}
		c := piece[0]
		switch {
		case t.state == inObject:
			piece = t.collect(piece)
			continue
		case c == ' ' || c == '\t':
		case t.state == seekColon && c == ':':
			t.state = seekBrace
		case t.state == seekBrace && c == '{':
			t.state, t.json, t.depth, t.str, t.esc = inObject, t.json[:0], 0, false, false
			continue // collect wants the brace too
		default:
			t.state = seekKey
			continue
		}
		piece = piece[1:]
	}
}

// seek looks for the key, also across the boundary to the piece before, and
// returns what follows it.
func (t *usageReader) seek(piece []byte) []byte {
	const keep = len(`"usage"`) - 1
	if len(t.tail) > 0 {
		joined := append(t.tail, piece[:min(keep, len(piece))]...)
		if at := bytes.Index(joined, usageKey); at >= 0 {
			used := at + len(usageKey) - len(t.tail)
			t.tail, t.state = t.tail[:0], seekColon
			return piece[used:]
		}
		if len(piece) < keep {
			t.tail = append(t.tail[:0], joined[max(0, len(joined)-keep):]...)
			return nil
		}
		t.tail = t.tail[:0]
	}
	if at := indexUsage(piece); at >= 0 {
		t.state = seekColon
		return piece[at+len(usageKey):]
	}
	t.tail = append(t.tail[:0], piece[max(0, len(piece)-keep):]...)
	return nil
}

// indexUsage returns where usageKey first stands in data, or -1. It does not search for the quote at the beginning,
// because text is full of quotes, at each of which bytes.Index stops.
func indexUsage(data []byte) int {
	for from := 0; ; {
		at := bytes.Index(data[from:], usageKey[1:])
		if at < 0 {
			return -1
		}
		if at += from; at > 0 && data[at-1] == '"' {
			return at - 1
		}
		from = at + 1
	}
}

// collect takes the object's bytes and returns what follows it.
func (t *usageReader) collect(piece []byte) []byte {
	for i, c := range piece {
		switch {
		case t.esc:
			t.esc = false
		case t.str:
			t.esc, t.str = c == '\\', c != '"'
		case c == '"':
			t.str = true
		case c == '{':
			t.depth++
		case c == '}':
			t.depth--
		}
		if t.depth == 0 {
			t.json = append(t.json, piece[:i+1]...)
			t.take()
			t.state = seekKey
			return piece[i+1:]
		}
		if len(t.json)+i >= maxUsage { // no provider's
			t.state = seekKey
			return piece[i+1:]
		}
	}
	t.json = append(t.json, piece...)
	return nil
}

// count is a reported number of tokens: the largest of those under one key. A value
// that is not a number is ignored: it is a word in a schema.
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

// take reads a whole object and keeps what is larger than before.
func (t *usageReader) take() {
	var u reportedUsage
	err := json.Unmarshal(t.json, &u)
	if _, kind := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !kind { // NaN, for one
		t.doubts("it is no JSON")
		return
	}
	claimed, kept := u.counts(), t.reported.counts()
	if !slices.ContainsFunc(claimed[:4], func(c *count) bool { return c.given }) {
		return // a word in somebody's schema
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

// sending is what was sent in a request: its size, the bytes of text that the
// model reads, and whether something in it may be more tokens than bytes.
type sending struct {
	size, read int64
	wide       bool
}

// tokens returns what the answer to a request took. estimated says that the
// provider did not tell, or not to the end, or not what can be believed: doubt
// says why.
func (t *usageReader) tokens(sent sending, whole bool) (u Tokens, estimated bool, doubt string) {
	s := &t.reported
	u.CacheWrite = s.CacheCreation.n
	u.CacheRead = max(s.InputDetails.Cached.n, s.CacheRead.n, s.PromptDetails.Cached.n, s.PromptHits.n)
	u.Reasoning = max(s.OutputDetails.Reasoning.n, s.CompletionDetails.Reasoning.n)
	u.Input = max(s.InputTokens.n+s.CacheCreation.n+s.CacheRead.n, s.Prompt.n)
	u.Output = max(s.OutputTokens.n, s.Completion.n, s.TotalTokens.n-u.Input) // some count thoughts in the total only
	if most := sent.size + slack; u.Input > most && !sent.wide {
		t.doubts(fmt.Sprintf("%d input tokens of %d bytes", u.Input, sent.size))
		u.Input = 0
	}
	if u.Output > t.bytes+thoughts {
		t.doubts(fmt.Sprintf("%d output tokens in %d bytes", u.Output, t.bytes))
		u.Output = 0
	}
	least := Tokens{Input: 1 + sent.read/mostPerToken, Output: max(0, t.lines/2-otherEvents) / eventsPerToken}
	if t.found && t.doubt == "" && (u.Input < least.Input || u.Output < least.Output) {
		t.doubts(fmt.Sprintf("%d input and %d output tokens, where there were at least %d and %d", u.Input, u.Output,
			least.Input, least.Output))
		u.Input, u.Output = max(u.Input, least.Input), max(u.Output, least.Output)
		return u, true, t.doubt
	}
	if t.found && whole && t.doubt == "" {
		return u, false, ""
	}
	t.estimate(&u, sent.size)
	u.CacheRead, u.CacheWrite = min(u.CacheRead, u.Input), min(u.CacheWrite, u.Input)
	return u, true, t.doubt
}

// estimate fills in what is not known, or not believed, by sizes.
func (t *usageReader) estimate(u *Tokens, size int64) {
	if u.Input == 0 || t.doubt != "" {
		u.Input = max(u.Input, min(maxTokens, (size+bytesPerToken-1)/bytesPerToken))
	}
	if t.stream { // about a token an event, which has two lines or three
		u.Output = max(u.Output, t.lines/2)
	} else if u.Output == 0 || t.doubt != "" {
		u.Output = max(u.Output, min(maxTokens, (t.bytes+bytesPerToken-1)/bytesPerToken))
	}
}
