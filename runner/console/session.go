package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"holon/internal/durable"
)

// Bounds of web sessions. The oldest goes when there is one too many.
const (
	sessionLife = 12 * time.Hour
	inviteLife  = 5 * time.Minute
	maxSessions = 32
	maxInvites  = 16
	maxKept     = 64 << 10 // bytes of the file
)

// pass is a token that is accepted until it expires. Only its digest is kept.
type pass struct {
	Digest  string    `json:"digest"` // SHA-256, hex
	Expires time.Time `json:"expires_at"`

	ended context.Context // ends when the token is dropped
	end   context.CancelFunc
}

func newPass(digest string, expires time.Time) pass {
	p := pass{Digest: digest, Expires: expires}
	p.ended, p.end = context.WithCancel(context.Background())
	return p
}

// sessions are the browsers that are signed in, and the links with which others may. The file is written before a
// token is given out.
type sessions struct {
	path string // "": there is no file
	now  func() time.Time

	mu      sync.Mutex
	invited []pass // by time
	in      []pass // by time
}

func openSessions(path string, now func() time.Time) (*sessions, error) {
	s := &sessions{path: path, now: now}
	if path == "" {
		return s, nil
	}
	data, err := durable.ReadFile(path, maxKept)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the web sessions: %w", err)
	}
	if err := json.Unmarshal(data, &s.in); err != nil {
		s.in = nil // it is not ours: everyone signs in again
	}
	for i, p := range s.in {
		s.in[i] = newPass(p.Digest, p.Expires)
	}
	return s, nil
}

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// add makes a token and drops those that have expired, and the oldest of too many.
func (s *sessions) add(list []pass, life time.Duration, most int) (_ []pass, token string, expires time.Time) {
	token, expires = rand.Text(), s.now().Add(life).UTC().Truncate(time.Second)
	list = append(s.valid(list), newPass(digest(token), expires))
	for len(list) > most {
		list[0].end()
		list = list[1:]
	}
	return list, token, expires
}

func (s *sessions) valid(list []pass) []pass {
	return slices.DeleteFunc(slices.Clone(list), func(p pass) bool { return !s.now().Before(p.Expires) })
}

// find returns where a token is in a list, or -1. Digests of secrets are compared: how long that takes tells nothing.
func (s *sessions) find(list []pass, token string) int {
	want := digest(token)
	return slices.IndexFunc(list, func(p pass) bool { return p.Digest == want && s.now().Before(p.Expires) })
}

func (s *sessions) invite() (token string, expires time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.invited, token, expires = s.add(s.invited, inviteLife, maxInvites)
	return token, expires
}

// enter takes an invitation, once, and returns the token of a new session.
func (s *sessions) enter(invitation string) (token string, expires time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.find(s.invited, invitation)
	if at < 0 {
		return "", time.Time{}, false
	}
	s.invited = slices.Delete(s.invited, at, at+1)
	s.in, token, expires = s.add(s.in, sessionLife, maxSessions)
	return token, expires, s.keep() == nil
}

// during returns a context that ends with the session of a token: a stream that is open then ends too.
func (s *sessions) during(ctx context.Context, token string) (_ context.Context, done context.CancelFunc, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.find(s.in, token)
	if at < 0 {
		return ctx, func() {}, false
	}
	p := s.in[at]
	ctx, cancel := context.WithTimeout(ctx, p.Expires.Sub(s.now()))
	stop := context.AfterFunc(p.ended, cancel)
	return ctx, func() { stop(); cancel() }, true
}

func (s *sessions) leave(token string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.find(s.in, token)
	if at < 0 {
		return nil
	}
	s.in[at].end()
	s.in = slices.Delete(s.in, at, at+1)
	return s.keep()
}

func (s *sessions) keep() error {
	if s.path == "" {
		return nil
	}
	data, err := json.Marshal(s.in)
	if err != nil {
		return fmt.Errorf("encode the web sessions: %w", err)
	}
	return durable.WriteFile(s.path, data, 0o600)
}
