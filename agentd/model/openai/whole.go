package openai

import (
	"encoding/json"
	"fmt"

	"holon/agentd/model/endpoint"
	"holon/responses"
)

// whole takes an answer that is one response object, and passes on the events that
// a stream would have had.
func (a *assembly) whole(data []byte) error {
	var r wireResponse
	if err := json.Unmarshal(data, &r); err != nil {
		return protocolError("the provider's answer can't be read: " + err.Error())
	}
	switch responses.Status(r.Status) {
	case responses.StatusCompleted, responses.StatusFailed:
	case responses.StatusIncomplete:
		if err := a.incomplete(r.Output); err != nil {
			return err
		}
	default:
		return protocolError(fmt.Sprintf("the provider's answer has the status %.64q", r.Status))
	}
	return a.terminal("response."+r.Status, &r)
}

// incomplete passes on an answer that was cut short. Its last item may be
// incomplete, so a call there is never run.
func (a *assembly) incomplete(output []json.RawMessage) error {
	for index, raw := range output {
		if index == len(output)-1 && endpoint.EventType(raw) != responses.ItemMessage {
			return nil
		}
		if err := a.ended(index, raw); err != nil {
			return err
		}
	}
	return nil
}
