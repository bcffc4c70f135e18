package agent

import (
	"errors"
	"fmt"
	"slices"

	"holon/responses"
	"holon/state"
	"holon/state/ledger"
)

// noOutput answers a call of a function whose client did not.
const noOutput = "error: the client sent no output of this call before the turn. Go on without it, or call again " +
	"if the function is still there."

// ofClient adds to the request of a turn what the client of its message asked for, if there is one, and answers the
// calls of functions with which the turn before ended. The agent's own frame, its instructions and its model, is no
// client's to change: package answers lets nothing else through.
func ofClient(req *responses.Request, m ledger.Message, calls []string) error {
	asked := &responses.Request{}
	if len(m.Request) > 0 { // an operator's prompt has one for its pictures
		var err error
		if asked, err = responses.DecodeRequest(m.Request); err != nil {
			return fmt.Errorf("read the request of message %s: %w", m.ID, err)
		}
	}
	if req.Holon.ResponseID = m.ResponseID(); req.Holon.ResponseID != "" {
		req.Metadata, req.Text, req.Include = asked.Metadata, asked.Text, asked.Include
		req.Tools, req.ToolChoice, req.ParallelToolCalls = asked.Tools, asked.ToolChoice, asked.ParallelToolCalls
	}
	outputs := make(map[string]responses.Item)
	for _, item := range asked.Input {
		if output, ok := item.(*responses.FunctionCallOutput); ok {
			outputs[output.CallID] = item
		}
	}
	prompt, _ := req.Input[len(req.Input)-1].(*responses.Message) // plan made it
	prompt.Content = append(prompt.Content, besidesText(asked.Input, calls)...)
	var answers responses.Items
	for _, id := range calls {
		output := outputs[id]
		if output == nil {
			output = &responses.FunctionCallOutput{CallID: id, Output: responses.Output{responses.InputText(noOutput)}}
		}
		answers = append(answers, output)
	}
	req.Input = append(answers, req.Input...)
	return nil
}

// besidesText are the parts of an input that the text of the message does not have: images and files, and outputs of
// calls that another turn has answered.
func besidesText(input responses.Items, calls []string) (parts responses.Parts) {
	for _, item := range input {
		switch item := item.(type) {
		case *responses.Message:
			for _, part := range item.Content {
				if part.Type != responses.PartInputText { // the prompt has that, with what it is worth
					parts = append(parts, part)
				}
			}
		case *responses.FunctionCallOutput:
			if !slices.Contains(calls, item.CallID) {
				parts = append(append(parts, responses.InputText("[late output of call "+item.CallID+"]")), item.Output...)
			}
		}
	}
	return parts
}

// forgotten reports whether a conversation can't be continued: it is gone, or the container does not have the calls
// that the host has to answer in it.
func forgotten(err error) bool {
	e, ok := errors.AsType[*state.Error](err)
	return ok && (e.Code == responses.CodePreviousNotFound || e.Code == responses.CodeCallNotFound ||
		e.Code == responses.CodeMissingParameter && e.Param == "input")
}

// clientsFault reports whether agentd refused a turn with a code that says that the request is wrong. Of that only its
// client's part is not the host's.
func clientsFault(code string) bool {
	switch code {
	case responses.CodeInvalidValue, responses.CodeUnsupportedParameter, responses.CodeMissingParameter,
		responses.CodeRequestTooLarge, responses.CodeContextLength:
		return true
	}
	return false
}
