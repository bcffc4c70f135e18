package turns

import (
	"bytes"
	"fmt"
	"strconv"

	"holon/responses"
)

// Keys of the value of an Entry.
const (
	EntryStream  = "stream"
	EntryRuntime = "runtime"
)

// maxEntryRuntime bounds the encoded runtime event of an entry, whose payload has maxPayload.
const maxEntryRuntime = 256 << 10

// Entry is a line of journal.ndjson: one thing that a turn did. Exactly one of Stream and Runtime is set.
type Entry struct {
	Seq     int64            // 1, 2, 3, … within the turn
	Stream  *responses.Event // of the Open Responses stream, as its client reads it
	Runtime *RuntimeEvent    // of what the stream does not carry
}

// AppendEntry appends a line of the journal, line end included. value is the event under key, one line of JSON.
func AppendEntry(dst []byte, seq int64, key string, value []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"seq":`...), seq, 10)
	dst = append(append(append(dst, `,"`...), key...), `":`...)
	return append(append(dst, value...), "}\n"...)
}

// CutEntry takes apart a line of the form that AppendEntry gives it. The value is a part of line and is not checked.
func CutEntry(line []byte) (seq int64, key string, value []byte, ok bool) {
	rest, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\n")), []byte(`{"seq":`))
	if !ok {
		return 0, "", nil, false
	}
	number, rest, ok := bytes.Cut(rest, []byte(`,"`))
	seq, err := strconv.ParseInt(string(number), 10, 64)
	if !ok || err != nil || seq < 1 || strconv.FormatInt(seq, 10) != string(number) || !bytes.HasSuffix(rest,
		[]byte("}")) {
		return 0, "", nil, false
	}
	for _, key := range []string{EntryStream, EntryRuntime} {
		if value, ok := bytes.CutPrefix(rest, []byte(key+`":`)); ok && len(value) > 0 {
			return seq, key, value[:len(value)-1], true
		}
	}
	return 0, "", nil, false
}

// IsDelta reports whether an entry of the stream, as CutEntry returns it, is an event with a piece of something that a
// later event has whole. agentd writes the type of an event first.
func IsDelta(key string, value []byte) bool {
	kind, _, _ := bytes.Cut(value, []byte{','})
	return key == EntryStream && bytes.HasSuffix(kind, []byte(`.delta"`))
}

// DecodeEntry reads a line of a journal that is not trusted. Errors are *responses.Error values.
func DecodeEntry(line []byte) (Entry, error) {
	seq, key, value, ok := CutEntry(line)
	switch {
	case !ok:
		return Entry{}, responses.Invalid("", responses.CodeInvalidJSON, "this is not a line of a turn's journal")
	case key == EntryStream:
		ev, err := responses.DecodeEvent(value)
		if err != nil {
			return Entry{}, err
		}
		return Entry{Seq: seq, Stream: &ev}, nil
	case len(value) > maxEntryRuntime:
		return Entry{}, invalid(EntryRuntime, fmt.Sprintf("a runtime event has more than %d bytes", maxEntryRuntime))
	}
	ev, err := DecodeRuntimeEvent(value)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Seq: seq, Runtime: &ev}, nil
}
