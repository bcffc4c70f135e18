// Package redact takes values that must not be seen out of what a process shows
// and writes down: streams, files, logs, errors, a terminal.
//
//	known values ─▶ Set ─▶ Text, JSON    something whole
//	                  ├──▶ Stream        text that comes in pieces
//	                  └──▶ Writer        the last step before a file or a terminal
//
// A process has one Set. Values are found by being known, in the encodings that
// Matcher lists and wherever a stream is cut; nothing is guessed from what a text
// looks like. A Set without values costs a comparison and allocates nothing.
//
// It does not promise more: a value of fewer than minLength bytes is not looked
// for, since it may be part of any word; neither is one that was split, reversed,
// compressed or encrypted, or encoded with line breaks other than those of base64
// and xxd. A command can always encode a value in a way of its own: redaction
// prevents accidents, not espionage.
package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"holon/internal/pattern"
)

// Bounds of the values that are looked for, in bytes.
const (
	minLength = 8
	maxLength = 64 << 10
)

// Set is the values that a process knows to be secret. The zero value has none;
// so has the nil Set. It is safe for concurrent use.
type Set struct {
	matcher atomic.Pointer[Matcher] // nil while there is none

	mu     sync.Mutex
	values []string
	names  map[string]string // of values
	fresh  map[string]bool   // values of AddFresh
}

// Add makes value known under a name, which is what a person knows it by: a
// variable, a provider. Spaces around it don't count. A value that is too short
// or too long is left out, and Add then returns false.
func (s *Set) Add(name, value string) bool { return s.add(name, value, false) }

// AddFresh is Add for a value that was made just now: nothing that was written before can have it.
func (s *Set) AddFresh(name, value string) bool { return s.add(name, value, true) }

func (s *Set) add(name, value string, fresh bool) bool {
	value = strings.TrimSpace(value)
	if s == nil || len(value) < minLength || len(value) > maxLength {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.values, value) {
		return true
	}
	if s.names == nil {
		s.names, s.fresh = make(map[string]string), make(map[string]bool)
	}
	s.values, s.names[value], s.fresh[value] = append(s.values, value), name, fresh
	s.matcher.Store(NewMatcher(s.values, minLength))
	return true
}

// Forget makes value unknown again, for one that opens nothing any more. What was
// taken out stays out.
func (s *Set) Forget(value string) {
	if s == nil {
		return
	}
	value = strings.TrimSpace(value)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.values, value)
	if at < 0 {
		return
	}
	s.values = slices.Delete(s.values, at, at+1)
	delete(s.names, value)
	delete(s.fresh, value)
	if len(s.values) == 0 {
		s.matcher.Store(nil)
		return
	}
	s.matcher.Store(NewMatcher(s.values, minLength))
}

// isPath reports whether a value names a file or directory that exists, as that of
// SSL_KEY may: it says where a secret is, and is none. Redacting it would break
// every path below.
func isPath(value string) bool {
	if !filepath.IsAbs(value) {
		return false
	}
	_, err := os.Lstat(value)
	return err == nil
}

// AddEnviron makes the values of those variables ("NAME=VALUE") known whose names
// look secret or are among marked. It returns the sorted names of those that stay
// unknown although they have a value: it is too short or too long, or begins as the
// times and ids do of which every record has many.
func (s *Set) AddEnviron(environ, marked []string) (unknown []string) {
	for _, kv := range environ {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || !secret(name) && !slices.Contains(marked, name) || isPath(value) {
			continue
		}
		value = strings.TrimSpace(value)
		if value != "" && (beginsTime(value) || beginsID(value) || !s.Add(name, value) || !isFound(value)) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// isFound reports whether one line of value at least is long enough to be looked for where it stands in lines of its
// own.
func isFound(value string) bool {
	for line := range strings.Lines(value) {
		if len(strings.TrimSpace(line)) >= minLength {
			return true
		}
	}
	return false
}

// beginsTime reports whether an RFC 3339 time can begin with value, or is it.
func beginsTime(value string) bool {
	const layout = "0000-00-00T00:00:00"
	for i := range len(value) {
		digit := '0' <= value[i] && value[i] <= '9'
		switch {
		case i >= len(layout):
			if !digit && !strings.ContainsRune(".Z+-:", rune(value[i])) {
				return false
			}
		case layout[i] == '0' && !digit, layout[i] != '0' && layout[i] != value[i]:
			return false
		}
	}
	return true
}

// id matches what responses.NewID returns, and its beginnings.
var id = pattern.Lazy(`^(resp|turn|sess|msg|rs|fc|call|fco|tc|act|cmp|req|evt|run|mr|inst|ctx|task)_` +
	`01[0-9a-hjkmnp-tv-z]{0,24}$`)

// beginsID reports whether an id of ours can begin with value, or is it.
func beginsID(value string) bool { return id().MatchString(value) }

// secret reports whether the value of a variable of that name is taken for a
// secret: NAME, or what it ends with after a _, is KEY, TOKEN, SECRET, PASSWORD,
// PASSWD or CREDENTIALS, or it holds PASSWORD anywhere. Case does not count.
func secret(name string) bool {
	name = strings.ToUpper(name)
	last := name[strings.LastIndex(name, "_")+1:]
	switch last {
	case "KEY", "APIKEY", "TOKEN", "SECRET", "PASSWD", "CREDENTIALS", "PAT":
		return true
	}
	return strings.Contains(name, "PASSWORD")
}

// Fingerprints identifies the values that are known, sorted and without those of AddFresh, by HMACs under a key: a
// store keeps with what it has cleaned those of which it was cleaned.
func (s *Set) Fingerprints(key []byte) (list []string) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, value := range s.values {
		if !s.fresh[value] {
			sum := hmac.New(sha256.New, key)
			sum.Write([]byte("secret\x00" + value))
			list = append(list, hex.EncodeToString(sum.Sum(nil)[:16]))
		}
	}
	slices.Sort(list)
	return list
}

// load returns the present matcher, nil while there is nothing to find.
func (s *Set) load() *Matcher {
	if s == nil {
		return nil
	}
	return s.matcher.Load()
}

// Empty reports whether nothing is known.
func (s *Set) Empty() bool { return s.load() == nil }

// Text returns text without the known values.
func (s *Set) Text(text string) string {
	m := s.load()
	if m == nil {
		return text
	}
	if start, _ := m.find([]byte(text)); start < 0 {
		return text
	}
	return m.Text(text)
}

// Bytes returns data without the known values: data itself where there is none.
func (s *Set) Bytes(data []byte) []byte {
	m := s.load()
	if m == nil {
		return data
	}
	return m.Redact(data)
}

// Names returns the names of the values that are in what r reads, sorted. It holds
// a piece at a time.
func (s *Set) Names(r io.Reader) (names []string, err error) {
	m := s.load()
	if m == nil {
		return nil, nil
	}
	overlap := len(m.forms[0]) // of the longest
	piece := make([]byte, overlap+256<<10)
	for kept := 0; err == nil; {
		var n int
		n, err = io.ReadFull(r, piece[kept:])
		names = append(names, s.namesIn(m, piece[:kept+n])...)
		kept = copy(piece, piece[max(0, kept+n-overlap):kept+n])
	}
	slices.Sort(names)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return slices.Compact(names), err
}

// namesIn returns the names of the values in data, of which m finds all.
func (s *Set) namesIn(m *Matcher, data []byte) (names []string) {
	if start, _ := m.find(data); start < 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, value := range s.values {
		if start, _ := NewMatcher([]string{value}, minLength).find(data); start >= 0 {
			names = append(names, s.names[value])
		}
	}
	return names
}

// Stream returns what takes the values out of one stream of text; nil for the nil
// Set.
func (s *Set) Stream() *Stream {
	if s == nil {
		return nil
	}
	return &Stream{set: s}
}
