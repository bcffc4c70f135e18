package openai

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
)

// Why a request tells all of a conversation although the transport may leave
// out what the provider has (model.Lowering).
const (
	reasonOff      = ""                    // it may not
	reasonNoScope  = "no_cache_scope"      // nothing says which conversation it is
	reasonFirst    = "first_request"       // the provider has nothing of it
	reasonShape    = "shape_changed"       // model, instructions, tools or settings are others
	reasonHistory  = "history_changed"     // it does not begin with what was told before
	reasonResponse = "response_changed"    // it does not go on with what the provider answered
	reasonNothing  = "nothing_new"         // there is nothing to tell
	reasonError    = "after_error"         // the attempt before failed
	reasonNoID     = "missing_response_id" // the provider's answer had no id, or no end of its own
)

// maxScopes bounds the conversations that are remembered.
const maxScopes = 256

// continuation remembers, of each conversation, the last request and what came of
// it, so that the next may tell only what is new (runtime specification, "Current
// lowering boundaries"). It is an optimisation alone: what is in doubt makes a
// full request. It is safe for concurrent use.
type continuation struct {
	mu     sync.Mutex
	scopes map[string]snapshot
}

// snapshot is a request that was answered.
type snapshot struct {
	response string // the provider's id of the answer; "" when it cannot be continued
	why      string // then the reason
	shape    [sha256.Size]byte
	prefix   [sha256.Size]byte // of the encoded items
	items    int
	made     []madeItem
}

// madeItem is an item of an answer.
type madeItem struct {
	kind       itemKind
	id, name   string // of a call
	text       string // of a message; arguments; what is opaque of a thought
	incomplete bool   // a call without an end
}

func (c *continuation) last(scope string) (snapshot, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.scopes[scope]
	return s, ok
}

// keep remembers s. Which conversation makes room for it does not matter: it
// begins with a full request again.
func (c *continuation) keep(scope string, s snapshot) {
	if scope == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scopes == nil {
		c.scopes = make(map[string]snapshot)
	}
	for key := range maps.Keys(c.scopes) {
		if len(c.scopes) < maxScopes {
			break
		}
		delete(c.scopes, key)
	}
	c.scopes[scope] = s
}

// scopeOf names the conversation of a request, "" when nothing says which it is.
func scopeOf(req model.Request) string {
	if req.PromptCacheKey == "" || req.Purpose != model.PurposeTurn {
		return ""
	}
	return req.PromptCacheKey + "\x00" + req.Model
}

// shapeOf is the digest of all of a request that has to stay the same. How long
// the answer may be and which tool has to be called does not: neither is part of
// what the provider keeps.
func shapeOf(w wireRequest) [sha256.Size]byte {
	w.MaxOutputTokens, w.ToolChoice, w.PreviousResponseID = nil, nil, ""
	b, err := json.Marshal(w)
	if err != nil { // then it cannot be sent either
		return [sha256.Size]byte{}
	}
	return sha256.Sum256(b)
}

// plan is how a request is told.
type plan struct {
	snapshot          // what to remember once it is answered
	scope    string   // "" for not at all
	previous string   // the response that the request continues, "" for none
	input    []byte   // the items to send
	sent     int      // how many of the conversation they are
	reason   string   // why it continues none
	made     recorder // of the answer
}

// planned decides how to tell req: only what is new when the request is, beyond
// doubt, the last one, its answer, and something at the end.
func (t *Transport) planned(req model.Request, w wireRequest, forms freeform) (*plan, error) {
	p := &plan{sent: len(req.Input)}
	var last snapshot
	known := false
	if t.continued {
		if p.scope = scopeOf(req); p.scope != "" {
			last, known = t.continuation.last(p.scope)
		}
	}
	full, at, err := encodeInput(t.provider, forms, req.Input, last.items)
	if err != nil {
		return nil, err
	}
	p.input = full
	switch {
	case !t.continued:
		p.reason = reasonOff
		return p, nil
	case p.scope == "":
		p.reason = reasonNoScope
		return p, nil
	}
	p.items, p.shape, p.prefix = len(req.Input), shapeOf(w), sha256.Sum256(full[:len(full)-1])
	switch {
	case !known:
		p.reason = reasonFirst
	case last.response == "":
		p.reason = last.why
	case last.shape != p.shape:
		p.reason = reasonShape
	case last.items > len(req.Input) || sha256.Sum256(full[:at]) != last.prefix:
		p.reason = reasonHistory
	default:
		fresh, n, reason, err := newSince(t.provider, forms, last.made, req.Input[last.items:])
		if err != nil {
			return nil, err
		}
		if p.reason = reason; reason == "" {
			p.previous, p.input, p.sent = last.response, fresh, n
		}
	}
	return p, nil
}

// newSince returns the items behind an answer that the provider does not have,
// encoded. reason says why that cannot be told for sure.
func newSince(provider string, forms freeform, made []madeItem, items []responses.Item) (fresh []byte, n int,
	reason string, err error) {
	l := &list{provider: provider, forms: forms}
	l.open()
	calls := make(map[string]*madeItem)
	answered := make(map[string]bool)
	var said []madeItem
	for i := range made {
		if made[i].incomplete {
			return nil, 0, reasonResponse, nil
		}
		if made[i].kind == call {
			calls[made[i].id] = &made[i]
		} else {
			said = append(said, made[i])
		}
	}
	// told reports whether the next of what the model said is this. What it began
	// and never said may be missing.
	told := func(kind itemKind, text string) bool {
		for len(said) > 0 {
			next := said[0]
			said = said[1:]
			if next.kind == kind && next.text == text {
				return true
			}
			if next.text != "" {
				return false
			}
		}
		return false
	}
	called := func(id, name, arguments string) bool {
		c := calls[id]
		_, twice := answered[id]
		if c == nil || twice || c.name != name || c.text != arguments {
			return false
		}
		answered[id] = false
		return true
	}
	for _, item := range items {
		ok := n == 0 // the model's own items come before what it is told
		switch item := item.(type) {
		case *responses.Reasoning:
			ok = ok && told(reasoning, unseal(provider, item.EncryptedContent))
		case *responses.FunctionCall:
			ok = ok && called(item.CallID, item.Name, item.Arguments)
		case *responses.ToolCall:
			ok = called(item.CallID, item.Name, item.Arguments)
			answered[item.CallID] = true
			err = l.result(item)
			n++
		case *responses.FunctionCallOutput:
			done, made := answered[item.CallID]
			ok = made && !done
			answered[item.CallID] = true
			err = l.item(item, nil)
			n++
		case *responses.Message:
			if item.Role == responses.RoleAssistant {
				ok = ok && told(message, spoken(item))
				break
			}
			ok = true
			err = l.item(item, nil)
			n++
		default:
			ok = false
		}
		if err != nil {
			return nil, 0, "", &model.Error{Kind: model.KindInvalidRequest, Code: responses.CodeInvalidValue,
				Message: "the end of the conversation: " + err.Error()}
		}
		if !ok {
			return nil, 0, reasonResponse, nil
		}
	}
	for _, rest := range said {
		if rest.text != "" {
			return nil, 0, reasonResponse, nil
		}
	}
	for id := range calls {
		if !answered[id] {
			return nil, 0, reasonResponse, nil
		}
	}
	if n == 0 {
		return nil, 0, reasonNothing, nil
	}
	l.shut()
	return l.buf, n, "", nil
}

// spoken is all that a message says.
func spoken(m *responses.Message) string {
	var b strings.Builder
	for _, p := range m.Content {
		b.WriteString(p.Text + p.Refusal)
	}
	return b.String()
}

// recorder takes down what an answer holds.
type recorder struct {
	provider string
	list     []madeItem
	text     strings.Builder // of the last item, which is a message
	stop     model.Stop
}

func (r *recorder) take(ev model.Event) {
	begin := func(it madeItem) {
		r.endText()
		r.list = append(r.list, it)
	}
	last := len(r.list) - 1
	switch ev.Kind {
	case model.MessageBegin:
		begin(madeItem{kind: message})
	case model.TextDelta, model.RefusalDelta:
		r.text.WriteString(ev.Text)
	case model.ReasoningBegin:
		begin(madeItem{kind: reasoning})
	case model.ReasoningEnd:
		r.list[last].text = unseal(r.provider, ev.Text)
	case model.CallBegin:
		begin(madeItem{kind: call, id: ev.CallID, name: ev.Name, incomplete: true})
	case model.CallEnd:
		r.list[last].text, r.list[last].incomplete = ev.Text, false
	case model.Done:
		r.endText()
		r.stop = ev.Stop
	}
}

func (r *recorder) endText() {
	if n := len(r.list); n > 0 && r.list[n-1].kind == message {
		r.list[n-1].text = r.text.String()
	}
	r.text.Reset()
}

// settle remembers how an attempt went, for the next request. response is the
// provider's id of the answer. It returns the attempt's error: one that the
// provider may have only because it lost what came before can be tried again, in
// full.
func (t *Transport) settle(p *plan, response string, err error) error {
	s := p.snapshot
	s.response, s.made = response, p.made.list
	enough := p.made.stop != "" && errors.Is(err, endpoint.ErrStopped) // the reader wants no more than the end
	switch {
	case err != nil && !enough:
		s = snapshot{why: reasonError}
	case response == "" || p.made.stop != model.StopEnd:
		s = snapshot{why: reasonNoID}
	}
	t.continuation.keep(p.scope, s)
	failed, ok := err.(*model.Error)
	if p.previous == "" || !ok || failed.Kind != model.KindInvalidRequest {
		return err
	}
	lost := *failed
	lost.Kind, lost.Message = model.KindContinuation, "the provider cannot continue its last response: "+failed.Message
	return &lost
}
