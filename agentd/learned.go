package agentd

import (
	"sync"

	"holon/agentd/turn"
)

// maxLearned bounds how many conversations learned holds.
const maxLearned = 1024

// learned is what turns found out about estimates and caches of the models that
// they asked, for the next turns of their sessions. It is lost with the process:
// nothing depends on it.
type learned struct {
	mu   sync.Mutex
	list map[string]turn.Memory // by session and model
}

func learnedKey(j *job) string { return j.sessionID + " " + j.modelRef }

func (l *learned) of(j *job) turn.Memory {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list[learnedKey(j)]
}

// keep notes what the turn of j found out. Which one makes room for it does not
// matter.
func (l *learned) keep(j *job, m turn.Memory) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list == nil {
		l.list = make(map[string]turn.Memory)
	}
	for key := range l.list {
		if len(l.list) < maxLearned {
			break
		}
		delete(l.list, key)
	}
	l.list[learnedKey(j)] = m
}
