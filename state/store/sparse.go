package store

import (
	"bytes"
	"os"
)

// sparse writes a file with holes where what is written is zeros: a program makes gigabytes of them at no cost. What is
// written counts once end was called.
type sparse struct {
	*os.File
	size int64
}

func (s *sparse) Write(p []byte) (int, error) {
	if len(bytes.TrimLeft(p, "\x00")) == 0 {
		s.size += int64(len(p))
		return len(p), nil
	}
	n, err := s.WriteAt(p, s.size)
	s.size += int64(n)
	return n, err
}

func (s *sparse) end() error { return s.Truncate(s.size) }
