package scheduler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// validText reports whether the ledger and a prompt can hold a text: UTF-8
// without NUL.
func validText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

func isText(s string) bool { return strings.TrimSpace(s) != "" && validText(s) }

// shortTexts bounds ids, names and reasons from outside: names of fields and their values in turn.
func shortTexts(named ...string) *rules.Refusal {
	for field := range slices.Chunk(named, 2) {
		if name, value := field[0], field[1]; len(value) > maxShortText || !validText(value) {
			return &rules.Refusal{Param: name, Message: fmt.Sprintf("%s is text of at most %d bytes", name, maxShortText)}
		}
	}
	return nil
}

func jsonObject(b []byte) bool {
	return json.Valid(b) && bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{"))
}

// clip cuts a text for the data of an event, further where most of it has to be escaped.
func clip(s string) string {
	s = cut(s, maxShortText)
	for limit := maxShortText; len(eventJSON(s)) > 2*maxShortText; {
		limit /= 2
		s = cut(s, limit)
	}
	return s
}

// cut is text of at most limit bytes.
func cut(s string, limit int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
}

// Bounds of texts of records in events, in bytes of their JSON.
const (
	maxCopied = 4 << 10
	maxAside  = 512 // of what matters less than the text
)

// withMessage adds a copy of a message as an event has room for it.
func (f fields) withMessage(m ledger.Message) fields {
	m.Body.Text = f.short("message.body.text", m.Body.Text)
	if len(m.Body.Value) > maxAside {
		m.Body.Value = nil
		f.clipped("message.body.value")
	}
	if len(m.Metadata) > maxAside {
		m.Metadata = nil
		f.clipped("message.metadata")
	}
	if len(m.Body.Attachments) > 0 {
		m.Body.Attachments = nil
		f.clipped("message.body.attachments")
	}
	m.Request = nil
	return f.with(record.RecordMessage, m)
}

// short is a text as an event has room for it.
func (f fields) short(key, text string) string {
	if len(text) <= maxCopied && len(eventJSON(text)) <= maxCopied {
		return text
	}
	f.clipped(key)
	for limit := maxCopied; ; limit /= 2 {
		if cut := cut(text, limit); len(eventJSON(cut)) <= maxCopied {
			return cut
		}
	}
}

func (f fields) clipped(key string) { f[record.KeyClipped] = append(clippedOf(f), key) }
