package openai

import (
	"encoding/json"

	"holon/agentd/model/endpoint"
	"holon/responses"
)

// whole reads an answer that is one response object, and passes on the events that
// a stream would have had.
type whole struct{ *assembly }

var _ endpoint.WholeReader = whole{}

// Whole implements endpoint.WholeReader.
func (a whole) Whole(data []byte) error {
	var r wireResponse
	if err := json.Unmarshal(data, &r); err != nil {
		return endpoint.Malformed("the provider's answer can't be read: %v", endpoint.Unreadable(err))
	}
	switch responses.Status(r.Status) {
	case responses.StatusCompleted, responses.StatusFailed:
	case responses.StatusIncomplete:
		if err := a.incomplete(r.Output); err != nil {
			return err
		}
	default:
		return endpoint.Malformed("the provider's answer has the status %.64q", r.Status)
	}
	return a.terminal("response."+r.Status, &r)
}

// incomplete passes on an answer that was cut short. Its last item may be
// incomplete, so a call there is never run.
func (a whole) incomplete(output []json.RawMessage) error {
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
