package redact

// Stream takes secrets out of a stream. It holds back the end of a chunk only
// while that may be the beginning of a secret, and less than the longest encoding
// of one; never a line end, since no encoding has one. It belongs to one
// goroutine. The nil Stream passes everything on.
type Stream struct {
	set     *Set     // its matcher may change
	matcher *Matcher // where set is nil
	held    []byte
	joined  []byte
	found   bool
}

// NewStream returns a Stream for what m finds.
func NewStream(m *Matcher) *Stream { return &Stream{matcher: m} }

// Next returns what can be sent on after chunk has arrived. The result may be
// chunk itself and is valid until the next call.
func (s *Stream) Next(chunk []byte) []byte {
	if s == nil {
		return chunk
	}
	m := s.matcher
	if s.set != nil {
		m = s.set.load()
	}
	if m == nil {
		return chunk // and nothing is held: what a Set knows it never forgets
	}
	data := chunk
	if len(s.held) > 0 {
		s.joined = append(append(s.joined[:0], s.held...), chunk...)
		data = s.joined
	}
	if start, _ := m.find(data); start >= 0 {
		s.found = true
		data = m.Redact(data)
	}
	cut := len(data) - m.partial(data)
	s.held = append(s.held[:0], data[cut:]...)
	return data[:cut]
}

// Rest returns what is held back, and holds it no longer: the stream has ended, or
// goes on with something else.
func (s *Stream) Rest() []byte {
	if s == nil {
		return nil
	}
	rest := s.held
	s.held = nil
	return rest
}

// Holds reports whether something is held back.
func (s *Stream) Holds() bool { return s != nil && len(s.held) > 0 }

// Found reports whether a secret was taken out so far.
func (s *Stream) Found() bool { return s != nil && s.found }
