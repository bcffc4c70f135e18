package answers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"holon/responses"
	"holon/runner/access"
	"holon/state/ledger"
)

// decode reads a request to an agent and refuses what an agent does not take.
func decode(body []byte) (*responses.Request, error) {
	var own struct {
		Holon        map[string]json.RawMessage `json:"holon"`
		Prompt       any                        `json:"prompt"`
		Conversation any                        `json:"conversation"`
	}
	if json.Unmarshal(body, &own) == nil { // what is not JSON is refused below
		switch {
		case own.Prompt != nil:
			return nil, unsupported("prompt", "an agent has its own instructions")
		case own.Conversation != nil:
			return nil, unsupported("conversation", "an agent has one conversation")
		}
		for _, key := range slices.Sorted(maps.Keys(own.Holon)) {
			if string(own.Holon[key]) != "null" {
				return nil, unsupported("holon."+key, "an agent has its own session, workspace and limits")
			}
		}
	}
	req, err := responses.DecodeRequest(body)
	if err != nil {
		return nil, err
	}
	for _, p := range []struct {
		name string
		set  bool
	}{
		{"instructions", req.Instructions != nil}, {"temperature", req.Sampling.Temperature},
		{"top_p", req.Sampling.TopP}, {"presence_penalty", req.Sampling.PresencePenalty},
		{"frequency_penalty", req.Sampling.FrequencyPenalty},
		{"reasoning", req.Reasoning != nil && !reflect.ValueOf(*req.Reasoning).IsZero()},
		{"max_output_tokens", req.MaxOutputTokens != nil}, {"max_tool_calls", req.MaxToolCalls != nil},
		{"top_logprobs", req.TopLogprobs != 0},
	} {
		if p.set {
			return nil, unsupported(p.name, "an agent has its own instructions, model and settings")
		}
	}
	if len(req.MCP) > 0 {
		return nil, unsupported("tools", "an agent has its own MCP servers; a client declares tools of type function")
	}
	return req, nil
}

func unsupported(param, why string) error {
	e := responses.Invalid(param, responses.CodeUnsupportedParameter, param+" is not taken with an agent: "+why)
	e.Hint = "leave it out; agents are set up by their operator"
	return e
}

// message is the message of a caller to an agent. With the same key it is the same for each request that says the same,
// however that is to be answered.
func message(c access.Caller, agentID, key string, req *responses.Request) (ledger.Message, error) {
	text, err := inputText(req.Input)
	if err != nil {
		return ledger.Message{}, err
	}
	kept := *req
	kept.Model, kept.PreviousResponseID, kept.Stream, kept.Input = "", "", false, named(key, req.Input)
	data, err := kept.MarshalJSON()
	if err != nil {
		return ledger.Message{}, responses.Internal("the request cannot be kept", err)
	}
	m := ledger.Message{AgentID: agentID, Kind: ledger.KindChannelEvent,
		Origin: ledger.Origin{Kind: ledger.OriginChannel, ChannelID: string(ledger.SurfaceOpenResponses),
			SenderID: c.Name},
		Surface: ledger.SurfaceOpenResponses, AdmissionContext: ledger.ControlAuthenticated,
		Body: ledger.Body{Type: "text", Text: text}, Previous: req.PreviousResponseID, Request: data}
	if key != "" {
		m.Key = string(ledger.SurfaceOpenResponses) + ":" + key
	}
	if c.Operator {
		m.Kind, m.Origin = ledger.KindOperatorPrompt, ledger.Origin{Kind: ledger.OriginOperator, ActorID: c.Name}
	}
	return m, nil
}

// speaker is the name of the caller whose message it is.
func speaker(m ledger.Message) string { return m.Origin.ActorID + m.Origin.SenderID }

// inputText is what the input says in text. An agent knows its conversation, so that a client sends only what is new.
func inputText(items responses.Items) (string, error) {
	var texts []string
	other := 0
	for i, item := range items {
		param := fmt.Sprintf("input[%d]", i)
		m, ok := item.(*responses.Message)
		_, output := item.(*responses.FunctionCallOutput)
		switch {
		case output:
			other++
			continue
		case !ok:
			return "", refusedItem(param, "an agent knows its conversation and what it did")
		case m.Role == responses.RoleAssistant:
			return "", refusedItem(param, "an agent knows what it said")
		case m.Role != responses.RoleUser:
			return "", refusedItem(param+".role", "the instructions of an agent are its operator's")
		}
		for _, part := range m.Content {
			if part.Type == responses.PartInputText {
				texts = append(texts, part.Text)
			} else {
				other++
			}
		}
	}
	if other > 0 {
		texts = append(texts, fmt.Sprintf("(with the message: %d images, files and outputs of functions)", other))
	}
	if text := strings.Join(texts, "\n\n"); strings.TrimSpace(text) != "" {
		return text, nil
	}
	e := responses.Invalid("input", responses.CodeMissingParameter, "the input says nothing")
	e.Hint = "send a text, messages of the role user, or outputs of the functions that were called"
	return "", e
}

func refusedItem(param, why string) error {
	e := responses.Invalid(param, responses.CodeUnsupportedParameter, param+" is not taken with an agent: "+why)
	e.Hint = "send only what is new: messages of the role user, and outputs of the functions that were called"
	return e
}

// named gives the items of an input ids by which they can be listed. They follow from a key.
func named(key string, items responses.Items) (list responses.Items) {
	for i, item := range items {
		id := func(prefix string) string {
			if key == "" {
				return responses.NewID(prefix)
			}
			return fmt.Sprintf("%s%s_%d", prefix, strings.TrimPrefix(responses.TurnOfKey(key), responses.PrefixTurn), i)
		}
		switch given := item.(type) {
		case *responses.Message:
			copied := *given
			copied.ID = cmp.Or(given.ID, id(responses.PrefixMessage))
			item = &copied
		case *responses.FunctionCallOutput:
			copied := *given
			copied.ID = cmp.Or(given.ID, id(responses.PrefixCallOutput))
			item = &copied
		}
		list = append(list, item)
	}
	return list
}
