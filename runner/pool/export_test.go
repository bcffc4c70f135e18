package pool

// Crowded reports whether an agent waits for a container.
func Crowded(k *Pool) bool { return k.gives() }

// Waiting returns how many agents wait for a container.
func Waiting(k *Pool) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.waiting)
}
