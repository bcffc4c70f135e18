package agent

import (
	"fmt"

	"holon/responses"
	"holon/state/ledger"
)

// ofClient adds to the request of a turn what the client of its message asked for, if there is one. The agent's own
// frame, its instructions and its model, is no client's to change: package answers lets nothing else through.
func ofClient(req *responses.Request, m ledger.Message) error {
	if req.Holon.ResponseID = m.ResponseID(); req.Holon.ResponseID == "" {
		return nil
	}
	asked, err := responses.DecodeRequest(m.Request)
	if err != nil {
		return fmt.Errorf("read the request of message %s: %w", m.ID, err)
	}
	req.Metadata, req.Text, req.Include = asked.Metadata, asked.Text, asked.Include
	req.Tools, req.ToolChoice, req.ParallelToolCalls = asked.Tools, asked.ToolChoice, asked.ParallelToolCalls
	prompt, _ := req.Input[len(req.Input)-1].(*responses.Message) // plan made it
	for _, item := range asked.Input {
		message, ok := item.(*responses.Message)
		if !ok {
			continue
		}
		for _, part := range message.Content {
			if part.Type != responses.PartInputText { // the prompt has that, with what it is worth
				prompt.Content = append(prompt.Content, part)
			}
		}
	}
	return nil
}
