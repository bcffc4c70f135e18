package agentd

import (
	"holon/agentd/record"
	"holon/responses"
)

// memory is the conversation that ends with the latest response of a
// connection. It lets a response that is not stored be continued there, and
// only there.
type memory struct {
	response string // the response's id
	session  string
	at       record.Thread
	status   responses.Status
	items    []responses.Item // all that a model was told; shared, never changed
	stored   storedPrefix
}

// maxMemory bounds what one connection keeps, in bytes of texts and media. A
// request that carries as much itself is refused too.
const maxMemory = responses.MaxRequest

// weight is about how many bytes items keep.
func weight(items []responses.Item) int {
	n := 0
	for _, item := range items {
		switch item := item.(type) {
		case *responses.Message:
			n += weightOf(item.Content)
		case *responses.FunctionCall:
			n += len(item.Arguments)
		case *responses.FunctionCallOutput:
			n += weightOf(item.Output)
		case *responses.ToolCall:
			n += len(item.Arguments) + len(item.Result) + len(item.Output)
		case *responses.Reasoning:
			n += weightOf(item.Summary) + weightOf(item.Content) + len(item.EncryptedContent)
		case *responses.OpaqueItem:
			n += len(item.Raw)
		}
		n += 256 // what an item costs in addition to its texts
	}
	return n
}

func weightOf(parts []responses.Part) int {
	n := 0
	for _, p := range parts {
		n += len(p.Text) + len(p.Refusal) + len(p.ImageURL) + len(p.FileData) + len(p.FileURL) + len(p.VideoURL) + 128
	}
	return n
}

// storedPrefix says how much of a conversation is stored: the first n items are those
// of the chain of a stored response, none when response is "".
type storedPrefix struct {
	response string
	n        int
}

// holds reports whether m, which may be nil, ends with the response id.
func (m *memory) holds(id string) bool { return m != nil && m.response == id }

// memory returns the conversation with the turn. It is nil when the turn has
// not run to its end in this process, for a conversation that is too large to
// be kept, and for a stored response, which the store knows better: it may have
// been deleted there.
func (lt *liveTurn) memory() *memory {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	if lt.final == nil || lt.final.Store || lt.told == nil || weight(lt.told) > maxMemory {
		return nil
	}
	at, _ := lt.turn.Thread()
	return &memory{response: lt.final.ID, session: lt.turn.Record().SessionID, at: at, status: lt.final.Status,
		items: lt.told, stored: lt.stored}
}
