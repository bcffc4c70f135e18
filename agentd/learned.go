package agentd

import (
	"sync"
)

// maxLearned bounds how many conversations learned holds.
const maxLearned = 1024

// learned is what turns leave to the next ones of their conversations. It is lost with the process: nothing depends on
// it.
type learned[V any] struct {
	mu   sync.Mutex
	list map[string]V // by conversation
}

// learnedKey is what is learned of a model in a session.
func learnedKey(j *job) string { return j.sessionID + " " + j.Ref }

func (l *learned[V]) of(key string) V {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list[key]
}

// keep notes what a turn found out. Which one makes room for it does not matter.
func (l *learned[V]) keep(key string, v V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list == nil {
		l.list = make(map[string]V)
	}
	for other := range l.list {
		if len(l.list) < maxLearned {
			break
		}
		delete(l.list, other)
	}
	l.list[key] = v
}
