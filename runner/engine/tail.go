package engine

// Tail is a writer that keeps the last limit bytes written to it.
type Tail struct {
	limit int
	data  []byte // up to twice the limit, so that a byte is moved once
}

// maxTail bounds what one call of Logs can ask for.
const maxTail = 16 << 20

// NewTail makes a Tail; limits outside 0 … 16 MiB are moved to its ends.
func NewTail(limit int64) *Tail {
	return &Tail{limit: int(min(max(limit, 0), maxTail))}
}

// Write implements io.Writer and never fails.
func (t *Tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > t.limit {
		p = p[len(p)-t.limit:]
	}
	t.data = append(t.data, p...)
	if len(t.data) > 2*t.limit {
		t.data = append(t.data[:0], t.Bytes()...)
	}
	return n, nil
}

// Bytes returns what is kept. The slice is valid until the next Write.
func (t *Tail) Bytes() []byte {
	return t.data[max(len(t.data)-t.limit, 0):]
}
