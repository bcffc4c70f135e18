package pool

// Crowded reports whether an agent waits for a container.
func Crowded(k *Pool) bool { return k.gives() }
