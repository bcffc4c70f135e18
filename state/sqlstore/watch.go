package sqlstore

import (
	"maps"
	"slices"
	"sync"
)

// watch keeps one channel for each agent that has waiters, shared by all of them.
type watch struct {
	mu       sync.Mutex
	channels map[string]chan struct{}
}

// anyAgent is the name under which all agents are waited for.
const anyAgent = ""

func (w *watch) changed(agentID string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.channels == nil {
		w.channels = make(map[string]chan struct{})
	}
	c, ok := w.channels[agentID]
	if !ok {
		c = make(chan struct{})
		w.channels[agentID] = c
	}
	return c
}

// announce closes the channels of the agents, or of all when there are none, and that of any agent.
func (w *watch) announce(agents []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(agents) == 0 {
		agents = slices.Collect(maps.Keys(w.channels))
	}
	for _, id := range agents {
		w.close(id)
	}
	w.close(anyAgent)
}

func (w *watch) close(agentID string) {
	if c, ok := w.channels[agentID]; ok {
		close(c)
		delete(w.channels, agentID)
	}
}
