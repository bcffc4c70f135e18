package gateway

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
)

const (
	// bytesPerToken is for estimates: text of programs has fewer, prose more.
	bytesPerToken = 4
	// maxTokens bounds what is believed of one request.
	maxTokens = 2_000_000_000
	// maxUsage bounds a usage object in bytes.
	maxUsage = 8 << 10
)

// tally reads what a provider says of usage from an answer that passes by, in
// whatever pieces. It looks for objects under the key "usage", which all
// contracts have, and takes the largest number of each field: streams say their
// usage more than once, and growing. What is quoted in a string can't be taken
// for one, since its quotes are escaped there.
type tally struct {
	stream bool // the answer is a stream of events
	lines  int64
	bytes  int64
	said   said
	found  bool

	state tallyState
	tail  []byte // the end of the last piece, while the key is looked for
	json  []byte // the object so far
	depth int
	str   bool // within a string of the object
	esc   bool // behind a backslash
}

type tallyState uint8

const (
	seekKey tallyState = iota
	seekColon
	seekBrace
	inObject
)

var (
	usageKey = []byte(`"usage"`)
	lineEnd  = []byte("\n")
)

func newTally(contentType string) *tally {
	return &tally{stream: strings.HasPrefix(contentType, "text/event-stream")}
}

// feed takes the next piece. It keeps no reference to it.
func (t *tally) feed(piece []byte) {
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
func (t *tally) seek(piece []byte) []byte {
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

// indexUsage returns where usageKey first stands in data, or -1. Seven bytes
// hold four that begin at a multiple of four, wherever they stand, so one word in
// four bytes is looked at; bytes.Index stops at each quote, and text is full of them.
func indexUsage(data []byte) int {
	const (
		from0 = '"' | 'u'<<8 | 's'<<16 | 'a'<<24
		from1 = 'u' | 's'<<8 | 'a'<<16 | 'g'<<24
		from2 = 's' | 'a'<<8 | 'g'<<16 | 'e'<<24
		from3 = 'a' | 'g'<<8 | 'e'<<16 | '"'<<24
	)
	for i := 0; i+4 <= len(data); i += 4 {
		switch binary.LittleEndian.Uint32(data[i:]) {
		case from0, from1, from2, from3:
			begin := max(0, i-3)
			if at := bytes.Index(data[begin:min(len(data), i+len(usageKey))], usageKey); at >= 0 {
				return begin + at
			}
		}
	}
	return -1
}

// collect takes the object's bytes and returns what follows it.
func (t *tally) collect(piece []byte) []byte {
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

// said are the fields that contracts have for usage. Numbers of hostile size or
// of another kind make the object none.
type said struct {
	InputTokens  *int64 `json:"input_tokens"`
	OutputTokens *int64 `json:"output_tokens"`
	InputDetails struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`

	// Messages: beside input_tokens, not within.
	CacheCreation int64 `json:"cache_creation_input_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`

	// Chat Completions.
	Prompt        *int64 `json:"prompt_tokens"`
	Completion    *int64 `json:"completion_tokens"`
	PromptDetails struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	PromptHits int64 `json:"prompt_cache_hit_tokens"` // some say it here
}

// take reads a whole object and keeps what is larger than before.
func (t *tally) take() {
	var u said
	if json.Unmarshal(t.json, &u) != nil || u.InputTokens == nil && u.OutputTokens == nil && u.Prompt == nil && u.Completion == nil {
		return // a word in somebody's schema
	}
	t.found = true
	for _, field := range [][2]*int64{
		{&t.said.InputDetails.Cached, &u.InputDetails.Cached}, {&t.said.OutputDetails.Reasoning, &u.OutputDetails.Reasoning},
		{&t.said.CacheCreation, &u.CacheCreation}, {&t.said.CacheRead, &u.CacheRead},
		{&t.said.PromptDetails.Cached, &u.PromptDetails.Cached}, {&t.said.CompletionDetails.Reasoning, &u.CompletionDetails.Reasoning},
		{&t.said.PromptHits, &u.PromptHits},
	} {
		*field[0] = larger(*field[0], *field[1])
	}
	for _, field := range [][2]**int64{
		{&t.said.InputTokens, &u.InputTokens}, {&t.said.OutputTokens, &u.OutputTokens}, {&t.said.Prompt, &u.Prompt}, {&t.said.Completion, &u.Completion},
	} {
		if *field[1] != nil {
			n := larger(number(*field[0]), **field[1])
			*field[0] = &n
		}
	}
}

func number(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

// larger is the larger of both within what is believed.
func larger(a, b int64) int64 { return max(a, min(b, maxTokens)) }

// tokens returns what the answer to a request of size bytes took. estimated says
// that the provider did not tell, or not to the end.
func (t *tally) tokens(size int64, whole bool) (u Tokens, estimated bool) {
	s := &t.said
	u.CacheWrite = s.CacheCreation
	u.CacheRead = max(s.InputDetails.Cached, s.CacheRead, s.PromptDetails.Cached, s.PromptHits)
	u.Reasoning = max(s.OutputDetails.Reasoning, s.CompletionDetails.Reasoning)
	u.Input = max(number(s.InputTokens)+s.CacheCreation+s.CacheRead, number(s.Prompt))
	u.Output = max(number(s.OutputTokens), number(s.Completion))
	if t.found && whole {
		return u, false
	}
	if u.Input == 0 {
		u.Input = min(maxTokens, (size+bytesPerToken-1)/bytesPerToken)
	}
	if t.stream { // about a token an event, which has two lines or three
		u.Output = max(u.Output, t.lines/2)
	} else if u.Output == 0 {
		u.Output = min(maxTokens, (t.bytes+bytesPerToken-1)/bytesPerToken)
	}
	return u, true
}
