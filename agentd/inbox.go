package agentd

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/go-chi/chi/v5"

	"holon/agentd/record"
	"holon/responses"
	"holon/responses/turns"
)

// inbox takes what the user says while a turn runs and passes it to the turn
// between two rounds. An accepted message is on disk, and the model is told it
// unless the turn ends first: turn.json then says that it was not.
type inbox struct {
	rec   *record.Turn
	scope turns.Scope

	mu      sync.Mutex
	closed  bool
	waiting []turns.NewInput
	bytes   int // of waiting
}

// offer accepts a message, or finds the one that was accepted under its id.
func (b *inbox) offer(n turns.NewInput) (turns.Input, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	given := b.rec.Record().Inputs
	if in, known, err := heard(given, n, b.closed); known || err != nil {
		return in, err
	}
	switch {
	case b.closed:
		return turns.Input{}, turnEnded(b.scope.TurnID)
	case len(given) >= turns.MaxInputs:
		return turns.Input{}, inboxFull(fmt.Sprintf("the turn was sent %d messages, and takes no more", len(given)),
			"send it as a turn of its own")
	case b.bytes+len(n.Text) > turns.MaxInputsBytes:
		return turns.Input{}, inboxFull(fmt.Sprintf("messages of %d bytes wait for the turn", b.bytes),
			"send it again when the model was told them")
	}
	in := n.Input()
	if err := b.rec.Input(in, nil); err != nil {
		return turns.Input{}, recordError(err)
	}
	b.waiting, b.bytes = append(b.waiting, n), b.bytes+len(n.Text)
	fact := b.scope.Event(turns.InputAccepted, turns.Heard{InputID: n.ID, Bytes: len(n.Text)})
	if err := b.rec.Event(fact); err != nil {
		return turns.Input{}, recordError(err)
	}
	return in, nil
}

// heard returns what became of a message that was sent before; known is false for
// a new one. over says that the turn takes nothing any more.
func heard(given []turns.Input, n turns.NewInput, over bool) (in turns.Input, known bool, err error) {
	i := slices.IndexFunc(given, func(in turns.Input) bool { return in.ID == n.ID })
	switch {
	case i < 0:
		return turns.Input{}, false, nil
	case given[i].Digest != n.Input().Digest:
		return turns.Input{}, true, &responses.Error{Type: responses.TypeInvalidRequest,
			Code: responses.CodeInputConflict, Param: "id",
			Message: fmt.Sprintf("the message %s was sent to the turn with another text", n.ID),
			Hint:    "choose another id"}
	case over && !given[i].Inserted:
		return turns.Input{}, true, &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeTurnEnded,
			Param:   "id",
			Message: fmt.Sprintf("the turn ended before the model was told the message %s", n.ID),
			Hint:    "send it as a turn of its own"}
	}
	return given[i], true, nil
}

// Insert implements turn.Inbox.
func (b *inbox) Insert(round int) ([]responses.Item, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var told []responses.Item
	for len(b.waiting) > 0 {
		n := b.waiting[0]
		item := &responses.Message{
			ID: responses.NewID(responses.PrefixInterjected), Status: responses.ItemCompleted, Role: responses.RoleUser,
			Content: []responses.Part{responses.InputText(n.Text)},
		}
		in := n.Input()
		in.Inserted, in.Round = true, round
		if err := b.rec.Input(in, item); err != nil {
			return told, err
		}
		b.waiting, b.bytes, told = b.waiting[1:], b.bytes-len(n.Text), append(told, item)
		if err := b.rec.Event(b.scope.Event(turns.InputInserted, turns.Heard{InputID: n.ID, Round: round,
			ItemID: item.ID})); err != nil {
			return told, err
		}
	}
	return told, nil
}

// Close implements turn.Inbox.
func (b *inbox) Close() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = b.closed || len(b.waiting) == 0
	return b.closed
}

// end refuses further messages and drops those that wait.
func (b *inbox) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.waiting, b.bytes = true, nil, 0
}

// postTurnInput tells a running turn something.
func (s *Server) postTurnInput(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	var said turns.NewInput
	err := responses.CheckID("turn_id", id)
	if err == nil {
		err = s.readObject(w, r, 6*turns.MaxInputText+maxTaskBody, &said) // every byte may be escaped
	}
	if err == nil {
		err = said.Check()
	}
	var in turns.Input
	if err == nil {
		in, err = s.offer(id, said)
	}
	s.answer(w, in, err)
}

// offer passes a message to the turn, or says what became of it when the turn is
// over.
func (s *Server) offer(turnID string, said turns.NewInput) (turns.Input, error) {
	if lt := s.lookup(turnID); lt != nil {
		<-lt.start
		if lt.err == nil && lt.inbox != nil {
			return lt.inbox.offer(said)
		}
	}
	_, rec, err := s.locate(turnID)
	if err != nil {
		return turns.Input{}, err
	}
	if rec == nil {
		return turns.Input{}, turnNotFound(turnID)
	}
	in, known, err := heard(rec.Inputs, said, true)
	if !known {
		err = turnEnded(turnID)
	}
	return in, err
}

func turnEnded(turnID string) error {
	return &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeTurnEnded, Param: "turn_id",
		Message: fmt.Sprintf("the turn %s is over, or about to be", turnID),
		Hint:    "send the message as a turn of its own"}
}

func inboxFull(message, hint string) error {
	return &responses.Error{Type: responses.TypeTooManyRequests, Code: responses.CodeQueueFull, Message: message,
		Hint: hint}
}
