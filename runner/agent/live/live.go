// Package live shows what the running turns of agents write, while they write it.
//
//	turn ─▶ Writer.Event ─▶ Board ◀─ Look ◀─ any number of readers
//
// The invariant: a writer never waits for a reader. The Board has one text for each agent, the message that is being
// written or was written last; a reader looks at it whenever it can, from where it is. Nothing of it is recorded: what
// a turn said is in the record when it is complete.
package live

import (
	"strings"
	"sync"
	"unicode/utf8"

	"holon/internal/redact"
	"holon/responses"
)

// maxText bounds a message, in bytes. What comes after it is not shown.
const maxText = 1 << 20

// Message is a message of the model, from an offset on.
type Message struct {
	TurnID    string
	MessageID string // of the message that the turn is for
	ItemID    string
	Offset    int    // where Text begins, in bytes
	Text      string // as far as it is written, in whole characters, without known secrets
	Done      bool   // it is complete
}

// Board has the newest message of each agent. The zero value is ready. All methods are safe for
// concurrent use.
type Board struct {
	mu     sync.Mutex
	agents map[string]*sheet
}

// sheet is what one agent writes.
type sheet struct {
	Message
	text    []byte
	changed chan struct{} // closed and made anew when the message changes
}

// Look returns the newest message of an agent, and a channel that is closed when it changes. A reader that has the
// message itemID up to an offset gets what follows. A message without an ItemID is none.
func (b *Board) Look(agentID, itemID string, offset int) (Message, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sheet(agentID)
	m := s.Message
	if m.ItemID == itemID {
		m.Offset = min(offset, len(s.text))
	}
	end := len(s.text)
	for !m.Done && end > m.Offset && !utf8.Valid(s.text[m.Offset:end]) && end > len(s.text)-utf8.UTFMax {
		end-- // the character is not whole yet
	}
	m.Text = strings.ToValidUTF8(string(s.text[m.Offset:end]), "\uFFFD")
	return m, s.changed
}

func (b *Board) sheet(agentID string) *sheet {
	if b.agents == nil {
		b.agents = make(map[string]*sheet)
	}
	if b.agents[agentID] == nil {
		b.agents[agentID] = &sheet{changed: make(chan struct{})}
	}
	return b.agents[agentID]
}

func (b *Board) change(agentID string, fn func(*sheet)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sheet(agentID)
	fn(s)
	close(s.changed)
	s.changed = make(chan struct{})
}

// Writer writes what one turn says. It belongs to one goroutine.
type Writer struct {
	board                      *Board
	agentID, turnID, messageID string
	secrets                    *redact.Set
	scrub                      *redact.Stream // of the message that is being written
}

// Writer returns the writer of a turn, for a message.
func (b *Board) Writer(agentID, turnID, messageID string, secrets *redact.Set) *Writer {
	return &Writer{board: b, agentID: agentID, turnID: turnID, messageID: messageID, secrets: secrets}
}

// Event takes an event of the turn's response.
func (w *Writer) Event(ev responses.Event) {
	m, isMessage := ev.Item.(*responses.Message)
	isMessage = isMessage && m.Role == responses.RoleAssistant
	switch {
	case isMessage && ev.Type == responses.EventItemAdded:
		w.scrub = w.secrets.Stream()
		w.board.change(w.agentID, func(s *sheet) {
			s.Message = Message{TurnID: w.turnID, MessageID: w.messageID, ItemID: m.ID}
			s.text = nil
		})
	case ev.Type == responses.EventTextDelta:
		w.write(w.scrub.Next([]byte(ev.Delta)))
	case isMessage && ev.Type == responses.EventItemDone:
		w.write(w.scrub.Rest())
		w.board.change(w.agentID, func(s *sheet) { s.Done = s.ItemID == m.ID })
	}
}

func (w *Writer) write(text []byte) {
	if len(text) == 0 {
		return
	}
	w.board.change(w.agentID, func(s *sheet) {
		if s.TurnID == w.turnID && !s.Done {
			s.text = append(s.text, text[:min(len(text), maxText-len(s.text))]...)
		}
	})
}

// Close ends the turn. Its last message stays until the agent writes another.
func (w *Writer) Close() {
	w.board.change(w.agentID, func(s *sheet) { s.Done = s.Done || s.TurnID == w.turnID })
}
