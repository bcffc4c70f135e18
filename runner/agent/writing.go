package agent

import (
	"sync"
	"unicode/utf8"

	"holon/internal/redact"
	"holon/responses"
	"holon/runner/agent/record"
)

// maxWriting bounds the text of a message that is shown before it is complete, in bytes.
const maxWriting = 1 << 20

// writing is the message that the model of a turn writes. Its text only grows.
type writing struct {
	itemID  string // "": none
	text    []byte
	secrets *redact.Stream // of the message
}

// apply takes an event of the turn's response, and reports whether there is more of the text, or no message any more.
func (w *writing) apply(ev responses.Event, secrets *redact.Set) bool {
	m, isMessage := ev.Item.(*responses.Message)
	switch isMessage = isMessage && m.Role == responses.RoleAssistant; {
	case isMessage && ev.Type == responses.EventItemAdded:
		*w = writing{itemID: m.ID, secrets: secrets.Stream()}
	case isMessage && ev.Type == responses.EventItemDone:
		*w = writing{}
	case ev.Type == responses.EventTextDelta && w.itemID != "":
		more := w.secrets.Next([]byte(ev.Delta))
		w.text = append(w.text, more[:min(len(more), maxWriting-len(w.text))]...)
	default:
		return false
	}
	return true
}

// whole is the text in whole characters.
func (w *writing) whole() []byte {
	end := len(w.text)
	for i := 1; i <= min(utf8.UTFMax, end); i++ {
		if !utf8.RuneStart(w.text[end-i]) {
			continue
		}
		if !utf8.FullRune(w.text[end-i:]) {
			end -= i
		}
		break
	}
	return w.text[:end:end]
}

// writings has what the models of agents write now. The zero value is ready.
type writings struct {
	mu     sync.Mutex
	agents map[string]written
}

type written struct {
	record.Writing
	changed chan struct{} // closed when it is replaced
}

// look returns what the model of an agent writes, and a channel that is closed when that changes.
func (b *writings) look(agentID string) (record.Writing, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.of(agentID)
	return w.Writing, w.changed
}

// show replaces what the model of an agent writes.
func (b *writings) show(agentID string, now record.Writing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.of(agentID)
	b.agents[agentID] = written{now, make(chan struct{})}
	close(before.changed)
}

func (b *writings) of(agentID string) written {
	if b.agents == nil {
		b.agents = make(map[string]written)
	}
	w, ok := b.agents[agentID]
	if !ok {
		w.changed = make(chan struct{})
		b.agents[agentID] = w
	}
	return w
}
