package agentd

import (
	"sync"

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

// maxMemory bounds what one connection keeps, in bytes of JSON. A request that
// carries as much itself is refused too.
const maxMemory = responses.MaxRequest

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
	if lt.final == nil || lt.final.Store || lt.conversation == nil {
		return nil
	}
	if data, err := responses.Items(lt.conversation).MarshalJSON(); err != nil || len(data) > maxMemory {
		return nil
	}
	at, _ := lt.turn.Thread()
	return &memory{response: lt.final.ID, session: lt.turn.Record().SessionID, at: at, status: lt.final.Status,
		items: lt.conversation, stored: lt.stored}
}

// maxCached bounds how many conversations a cache holds.
const maxCached = 1024

// cache holds what turns leave to the next ones of their conversations. It is lost with the process: nothing depends on
// it.
type cache[V any] struct {
	mu   sync.Mutex
	list map[string]V // by conversation
}

// modelKey is the key of a model in a session.
func modelKey(j *job) string { return j.sessionID + " " + j.Ref }

func (l *cache[V]) of(key string) V {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list[key]
}

// keep notes what a turn found out. Which one makes room for it does not matter.
func (l *cache[V]) keep(key string, v V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list == nil {
		l.list = make(map[string]V)
	}
	for other := range l.list {
		if len(l.list) < maxCached {
			break
		}
		delete(l.list, other)
	}
	l.list[key] = v
}
