package turns

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"holon/responses"
)

// Classes of the facts about calls of the client's functions. Such a call outlives the turn that makes it, which no
// open tool call may: until its output comes, it is an open action.
const (
	ActionRequired = "action.required"
	ActionResolved = "action.resolved"
)

// HostClient is the host of such a call.
const HostClient = "client"

// maxHanded bounds the calls of a response that are facts: the end of its turn names their actions in one event.
const maxHanded = 100

// Handed returns the calls among items that the client has to answer, as far as they are facts.
func Handed(items []responses.Item) (calls []*responses.FunctionCall) {
	for _, item := range items {
		call, ok := item.(*responses.FunctionCall)
		if ok && call.Status != responses.ItemIncomplete && len(calls) < maxHanded {
			calls = append(calls, call)
		}
	}
	return calls
}

// ActionIDs returns the ids of the actions that are open once a turn has made items.
func ActionIDs(items []responses.Item) (ids []string) {
	for _, call := range Handed(items) {
		ids = append(ids, actionOf(call.ID))
	}
	return ids
}

// HandedCall is the id of the tool call that the item of a call of a client's function is.
func HandedCall(itemID string) string { return responses.PrefixToolCall + suffixOf(itemID) }

func actionOf(itemID string) string { return responses.PrefixAction + suffixOf(itemID) }

func suffixOf(id string) string { return id[strings.IndexByte(id, '_')+1:] }

// action is the payload of action.required.
type action struct {
	ActionType string   `json:"action_type"` // client_tool_output
	Scope      string   `json:"scope"`       // tool_call
	Prompt     string   `json:"prompt" max:"2048"`
	Choices    []string `json:"choices"`
	Blocking   bool     `json:"blocking"` // the conversation does not go on without
	Begun
}

// ActionRequired says that the client has to answer a call of its function.
func (s Scope) ActionRequired(call *responses.FunctionCall) RuntimeEvent {
	begun := handed(call).completed()
	return s.action(ActionRequired, call, action{ActionType: "client_tool_output", Scope: "tool_call",
		Prompt:  fmt.Sprintf("run %s and send its output as a function_call_output", begun.ToolName),
		Choices: []string{}, Blocking: true, Begun: begun})
}

// resolution is the payload of action.resolved.
type resolution struct {
	Decision   string `json:"decision"`    // answered
	ResolvedBy string `json:"resolved_by"` // client
	Via        string `json:"via"`         // respond_action
	PayloadRef string `json:"payload_ref"` // the item with the output, in the input of the turn's response
}

// answer is the payload of the tool.result of a client's function: what the client says that it gave.
type answer struct {
	ToolName  string `json:"tool_name"`
	Host      string `json:"host"` // client
	Summary   string `json:"summary"`
	Preview   string `json:"preview" max:"2048"`
	Truncated bool   `json:"truncated"` // Preview shows less than there was; the item with the output has it all
}

// ClientAnswers are the facts of the outputs in input: they answer the calls that the conversation before it left open.
// goesOn says that the thread of the conversation goes on in the turn, so that the calls are its open actions. In
// another thread the same call may be answered again, so there it is a call of its own.
func (s Scope) ClientAnswers(before, input []responses.Item, goesOn bool) (facts []RuntimeEvent) {
	if !answers(input) {
		return nil
	}
	open := map[string]*responses.FunctionCall{}
	for _, call := range Handed(unanswered(before)) {
		open[call.CallID] = call
	}
	for _, item := range input {
		out, ok := item.(*responses.FunctionCallOutput)
		if !ok || open[out.CallID] == nil {
			continue
		}
		call := open[out.CallID]
		id := HandedCall(call.ID)
		if goesOn {
			facts = append(facts, s.action(ActionResolved, call,
				resolution{"answered", HostClient, "respond_action", out.ID}))
		} else {
			id = s.ownCall(call)
		}
		facts = append(facts, s.ToolStarted(id, handed(call)), s.answered(id, call, out))
	}
	return facts
}

// answered closes a call of a client's function.
func (s Scope) answered(id string, call *responses.FunctionCall, out *responses.FunctionCallOutput) RuntimeEvent {
	var text []string
	other := 0 // parts that are no text
	for _, part := range out.Output {
		if part.Text == "" {
			other++
			continue
		}
		text = append(text, part.Text)
	}
	whole := strings.Join(text, "\n")
	return s.OfCall(ToolResult, id, answer{ToolName: call.Name, Host: HostClient,
		Summary: "the client answered", Preview: whole, Truncated: clip(whole, MaxPreview) != whole || other > 0})
}

// ownCall is the id of a call that was made in another thread. It is the same each time it is asked for.
func (s Scope) ownCall(call *responses.FunctionCall) string {
	sum := sha256.Sum256([]byte(s.TurnID + " " + call.ID))
	return responses.PrefixToolCall + hex.EncodeToString(sum[:13])
}

func (s Scope) action(class string, call *responses.FunctionCall, payload any) RuntimeEvent {
	e := s.OfCall(class, HandedCall(call.ID), payload)
	e.ActionID = actionOf(call.ID)
	return e
}

func handed(call *responses.FunctionCall) Begun {
	return Begun{ToolName: call.Name, CallID: call.CallID, Host: HostClient, Arguments: call.Arguments,
		InputRef: call.ID}
}

// answers reports whether items hold outputs of functions.
func answers(items []responses.Item) bool {
	for _, item := range items {
		if _, ok := item.(*responses.FunctionCallOutput); ok {
			return true
		}
	}
	return false
}

// unanswered returns the calls of client's functions that have no output, in order.
func unanswered(items []responses.Item) (open []responses.Item) {
	answered := map[string]bool{}
	for _, item := range items {
		if out, ok := item.(*responses.FunctionCallOutput); ok {
			answered[out.CallID] = true
		}
	}
	for _, item := range items {
		if call, ok := item.(*responses.FunctionCall); ok && !answered[call.CallID] {
			open = append(open, call)
		}
	}
	return open
}
