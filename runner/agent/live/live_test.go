package live_test

import (
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"holon/internal/redact"
	"holon/responses"
	"holon/runner/agent/live"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func message(id string) *responses.Message {
	return &responses.Message{ID: id, Role: responses.RoleAssistant}
}

func say(w *live.Writer, id string, deltas ...string) {
	w.Event(responses.Event{Type: responses.EventItemAdded, Item: message(id)})
	for _, d := range deltas {
		w.Event(responses.Event{Type: responses.EventTextDelta, Delta: d})
	}
}

func done(w *live.Writer, id string) {
	w.Event(responses.Event{Type: responses.EventItemDone, Item: message(id)})
}

// A reader gets what is new to it; one that is late gets the newest message from its beginning.
func TestLook(t *testing.T) {
	var b live.Board
	w := b.Writer("a", "turn_1", "msg_1", nil)
	if m, _ := b.Look("a", "", 0); m.ItemID != "" {
		t.Errorf("before anything was written: %+v", m)
	}
	say(w, "item_1", "Hel", "lo")
	m, changed := b.Look("a", "", 0)
	if m.Text != "Hello" || m.Offset != 0 || m.TurnID != "turn_1" || m.MessageID != "msg_1" || m.Done {
		t.Errorf("got %+v, want Hello from 0 on", m)
	}
	w.Event(responses.Event{Type: responses.EventTextDelta, Delta: " world"})
	select {
	case <-changed:
	default:
		t.Error("the reader is not told of the change")
	}
	if m, _ = b.Look("a", "item_1", 5); m.Text != " world" || m.Offset != 5 {
		t.Errorf("got %+v, want what is new, from 5 on", m)
	}
	done(w, "item_1")
	if m, _ = b.Look("a", "item_1", 11); m.Text != "" || !m.Done {
		t.Errorf("got %+v, want the end", m)
	}
	say(w, "item_2", "Next")
	if m, _ = b.Look("a", "item_1", 11); m.Text != "Next" || m.Offset != 0 || m.Done {
		t.Errorf("got %+v, want the next message from 0 on", m)
	}
	w.Close()
	if m, _ = b.Look("a", "item_2", 4); !m.Done {
		t.Errorf("after the turn: %+v, want it done", m)
	}
	if m, _ = b.Look("other", "", 0); m.ItemID != "" {
		t.Errorf("another agent writes %+v", m)
	}
}

// A secret is not shown, however it is cut into deltas, and no half of a character.
func TestSecretsAndCharacters(t *testing.T) {
	const secret = "sk-0123456789abcdef"
	var set redact.Set
	set.Add("KEY", secret)
	text := "the key is " + secret + ", für dich €"
	for size := 1; size <= len(text); size++ {
		var b live.Board
		w := b.Writer("a", "turn_1", "msg_1", &set)
		say(w, "item_1")
		var shown string
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			w.Event(responses.Event{Type: responses.EventTextDelta, Delta: rest[:n]})
			rest = rest[n:]
			m, _ := b.Look("a", "item_1", len(shown))
			shown += m.Text
			if strings.Contains(shown, secret[:8]) || strings.Contains(shown, "\uFFFD") {
				t.Fatalf("in pieces of %d: %q is shown", size, shown)
			}
		}
		done(w, "item_1")
		m, _ := b.Look("a", "item_1", len(shown))
		if shown += m.Text; !strings.HasPrefix(shown, "the key is ") || !strings.HasSuffix(shown, ", für dich €") ||
			strings.Contains(shown, secret) {
			t.Errorf("in pieces of %d: %q", size, shown)
		}
	}
}

// A message without an end takes bounded room, and readers that never look hold nothing up.
func TestBound(t *testing.T) {
	var b live.Board
	w := b.Writer("a", "turn_1", "msg_1", nil)
	say(w, "item_1")
	for range 40 {
		w.Event(responses.Event{Type: responses.EventTextDelta, Delta: strings.Repeat("x", 64<<10)})
	}
	if m, _ := b.Look("a", "", 0); len(m.Text) != 1<<20 {
		t.Errorf("%d bytes are kept, want %d", len(m.Text), 1<<20)
	}
}

// Readers and a writer at once; each reader has the whole message at the end.
func TestTogether(t *testing.T) {
	var b live.Board
	w := b.Writer("a", "turn_1", "msg_1", nil)
	say(w, "item_1")
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			text := ""
			for {
				m, changed := b.Look("a", "item_1", len(text))
				if text += m.Text; m.Done {
					break
				}
				<-changed
			}
			if text != strings.Repeat("word ", 1000) {
				t.Errorf("a reader has %d bytes, want %d", len(text), 5000)
			}
		})
	}
	for range 1000 {
		w.Event(responses.Event{Type: responses.EventTextDelta, Delta: "word "})
	}
	done(w, "item_1")
	readers.Wait()
}
