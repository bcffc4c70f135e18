package redact

import "bytes"

// searcher finds the first of several strings in one pass that looks at few
// bytes: the algorithm of Wu and Manber with blocks of two bytes. All that a
// provider streams goes through it, a dozen strings wide; searching for each
// on its own costs ten times as much.
type searcher struct {
	forms  [][]byte // in the order of preference at one place, none empty
	window int      // length of the shortest, at most 255
	// shift says by how much the window may move on when its last two bytes
	// hash to the index; 0 means that a form may begin where the window does.
	shift [4096]uint8
}

// newSearcher returns what finds forms, none of which is empty. Where several begin
// at one place the earlier of the list counts. Forms of one byte are not found.
func newSearcher(forms [][]byte) *searcher {
	s := &searcher{forms: forms, window: 255}
	for _, form := range forms {
		s.window = min(s.window, len(form))
	}
	if s.window < 2 || len(forms) == 0 {
		s.window = 0
		return s
	}
	for i := range s.shift {
		s.shift[i] = uint8(s.window - 1)
	}
	for _, form := range forms {
		for end := 2; end <= s.window; end++ {
			h := blockHash(form[end-2], form[end-1])
			s.shift[h] = min(s.shift[h], uint8(s.window-end))
		}
	}
	return s
}

func blockHash(a, b byte) uint16 { return (uint16(a)<<5 ^ uint16(b)) & 4095 }

// find returns where the first form in data lies, or -1, -1.
func (s *searcher) find(data []byte) (start, end int) {
	if s.window == 0 {
		return -1, -1
	}
	for last := s.window - 1; last < len(data); {
		if by := int(s.shift[blockHash(data[last-1], data[last])]); by > 0 {
			last += by
			continue
		}
		start := last - s.window + 1
		for _, form := range s.forms {
			if bytes.HasPrefix(data[start:], form) {
				return start, start + len(form)
			}
		}
		last++
	}
	return -1, -1
}
