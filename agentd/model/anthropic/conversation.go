package anthropic

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"holon/agentd/model/endpoint"
	"holon/responses"
)

// conversation turns items into messages. The user and the model take turns in
// the API, and its rules are stricter than those of items:
//
//   - What was said in a row by one side is one message.
//   - The calls of an answer are in one message, and the results of all of them
//     are the first thing in the next.
//   - What the system said at the beginning is not a message at all. Later it
//     follows what the user said; models that don't know that are told by the
//     user, in a frame.
//
// Items only ever come at the end, and so do messages, provided that the model
// answered in between.
type conversation struct {
	provider string // its thoughts can be sent back
	contract contract
	system   []block
	messages []message

	ids     wireIDs
	calls   []*call // by item; nil for other items
	outputs []*call // the call that the output at the index answers

	speech []block  // what the model says at the moment
	made   []*call  // calls in speech
	heard  []spoken // what it is told after that

	err error // of the first item that the provider does not accept
}

// call is one call of a function with its output, which may be far behind it in
// the list of items.
type call struct {
	id       string // on the wire
	tag      string // of the answer that it is part of, "" when that is not known
	name     string
	input    json.RawMessage
	output   []responses.Part
	answered bool // there is an output somewhere
	passed   bool // and it was met
}

// spoken is a block of the user, or of the system.
type spoken struct {
	block  block
	system bool
}

// converse returns the system's blocks and the messages. Errors are *model.Error
// values about items that the provider does not accept.
func converse(provider string, items []responses.Item, c contract) (system []block, messages []message, err error) {
	conv := &conversation{provider: provider, contract: c, ids: make(wireIDs), calls: make([]*call, len(items)),
		outputs: make([]*call, len(items))}
	conv.match(items)
	for i, item := range items {
		if conv.add(i, item); conv.err != nil {
			return nil, nil, endpoint.RefusedItem(i, conv.err)
		}
	}
	if conv.end(); conv.err != nil {
		return nil, nil, endpoint.Refused("the conversation", conv.err)
	}
	return conv.system, conv.messages, nil
}

// blocks returns parts as blocks, see encodeParts.
func (v *conversation) blocks(parts []responses.Part, shown bool) []block {
	list, err := encodeParts(parts, shown)
	v.err = cmp.Or(v.err, err)
	return list
}

// match finds the output of every call. An id may be used again once it was
// answered.
func (v *conversation) match(items []responses.Item) {
	open := make(map[string]*call)
	for i, item := range items {
		switch item := item.(type) {
		case *responses.ToolCall:
			v.calls[i] = v.newCall(item.CallID, item.Name, item.Arguments)
			v.calls[i].answered, v.calls[i].passed = true, true
			v.calls[i].output = append([]responses.Part{responses.InputText(item.Output)}, item.Media...)
			v.calls[i].tag = cmp.Or(v.calls[i].tag, item.Round) // set for every answer made here
		case *responses.FunctionCall:
			v.calls[i] = v.newCall(item.CallID, item.Name, item.Arguments)
			open[item.CallID] = v.calls[i]
		case *responses.FunctionCallOutput:
			if c := open[item.CallID]; c != nil {
				c.answered, c.output, v.outputs[i] = true, item.Output, c
				delete(open, item.CallID)
			}
		}
	}
}

func (v *conversation) newCall(id, name, arguments string) *call {
	_, tag := splitCallID(id)
	return &call{id: v.ids.next(id), tag: tag, name: plainName(name),
		input: json.RawMessage(endpoint.ObjectArguments(arguments))}
}

func (v *conversation) add(i int, item responses.Item) {
	switch item := item.(type) {
	case *responses.Message:
		v.say(item)
	case *responses.Reasoning:
		if b, ok := unsealThought(v.provider, item.EncryptedContent); ok {
			v.speak(b)
		}
	case *responses.ToolCall, *responses.FunctionCall:
		v.call(v.calls[i])
	case *responses.FunctionCallOutput:
		if c := v.outputs[i]; c != nil {
			c.passed = true
		} else {
			v.orphan(item)
		}
	case *responses.Compaction:
		v.err = errors.New("a compacted conversation of another provider cannot be read by this one; begin a new one")
	case *responses.ItemReference:
		v.err = endpoint.Referred(item)
	}
}

// say adds a message of any role.
func (v *conversation) say(m *responses.Message) {
	blocks := v.blocks(m.Content, m.Role == responses.RoleUser)
	switch {
	case m.Role == responses.RoleAssistant:
		v.speak(blocks...)
		return
	case len(blocks) == 0:
		return
	}
	v.pause()
	system := m.Role != responses.RoleUser
	if system && len(v.messages) == 0 && len(v.heard) == 0 {
		v.system = append(v.system, blocks...)
		return
	}
	for _, b := range blocks {
		v.heard = append(v.heard, spoken{b, system})
	}
}

// speak adds content of the model. After calls that were answered it begins another
// answer.
func (v *conversation) speak(blocks ...block) {
	if len(blocks) == 0 {
		return
	}
	if len(v.made) > 0 && v.settled() {
		v.pause()
	}
	v.listen()
	v.speech = append(v.speech, blocks...)
}

// call adds a call of the model. It belongs to the same answer as the call before
// it if their tags are equal, or, if neither has one, if that call has no output yet.
func (v *conversation) call(c *call) {
	if n := len(v.made); n > 0 {
		last := v.made[n-1]
		waits := last.tag == "" && !last.passed // only calls of its own answer follow one of the client's at once
		if last.tag != c.tag && !waits || c.tag == "" && last.passed {
			v.pause()
		}
	}
	v.listen()
	v.speech = append(v.speech, block{Type: typeToolUse, ID: c.id, Name: c.name, Input: c.input})
	v.made = append(v.made, c)
}

// settled reports whether every call of the current answer has its output already.
func (v *conversation) settled() bool {
	for _, c := range v.made {
		if c.answered && !c.passed {
			return false
		}
	}
	return true
}

// pause ends a message of the model. The next message begins with the results of
// its calls.
func (v *conversation) pause() {
	if len(v.speech) == 0 {
		return
	}
	v.messages = append(v.messages, message{roleAssistant, v.speech})
	for _, c := range v.made {
		b := block{Type: typeToolResult, ToolUseID: c.id, Content: endpoint.Unanswered, IsError: true}
		if c.answered {
			b.Content, b.IsError = outputOf(v.blocks(c.output, true)), false
		}
		v.heard = append(v.heard, spoken{block: b})
	}
	v.speech, v.made = nil, nil
}

// outputOf returns the output of a call: a single text as a string, none as nil.
func outputOf(blocks []block) any {
	switch {
	case len(blocks) == 0:
		return nil
	case len(blocks) == 1 && blocks[0].Type == typeText:
		return blocks[0].Text
	}
	return blocks
}

// listen ends a message to the model.
func (v *conversation) listen() {
	if len(v.heard) == 0 {
		return
	}
	var user, system []block
	for _, s := range v.heard {
		switch {
		case !s.system:
			user = append(user, s.block)
		case v.contract.system:
			system = append(system, s.block)
		default:
			user = append(user, framed(s.block))
		}
	}
	if len(user) == 0 { // the system's message has to follow one of the user
		for _, b := range system {
			user = append(user, framed(b))
		}
		system = nil
	}
	v.messages = append(v.messages, message{roleUser, user})
	if len(system) > 0 {
		v.messages = append(v.messages, message{roleSystem, system})
	}
	v.heard = nil
}

// framed returns a text of the system as part of a user message.
func framed(b block) block {
	return textBlock("<system>\n" + b.Text + "\n</system>")
}

// orphan adds an output without a call as text, since the API has no other place
// for it.
func (v *conversation) orphan(o *responses.FunctionCallOutput) {
	v.pause()
	v.heard = append(v.heard, spoken{block: textBlock(fmt.Sprintf("Output of the call %s:", plainName(o.CallID)))})
	for _, b := range v.blocks(o.Output, true) {
		v.heard = append(v.heard, spoken{block: b})
	}
}

// end ends the conversation. Nothing is said in the user's name: where the model spoke
// last, it goes on with that, which the API takes without spaces at its end.
func (v *conversation) end() {
	if n := len(v.speech); n > 0 && len(v.heard) == 0 {
		v.speech[n-1].Text = strings.TrimRightFunc(v.speech[n-1].Text, unicode.IsSpace)
	}
	v.pause()
	v.listen()
}
