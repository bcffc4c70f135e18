package gateway

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"holon/internal/redact"
)

// Credential says what the key of a provider is. Implementations are safe for
// concurrent use. [Secret] is one: a key that never changes.
type Credential interface {
	// Key returns the key to use now. It is asked before every request, so a
	// source that is slow keeps what it found. Its error is logged on the host,
	// without keys that were given out; the container is told only that there is
	// no key.
	Key(ctx context.Context) (Secret, error)

	// Renew is called after a provider refused a key with 401, at most once for a
	// request. It returns the key to use instead, or the refused key itself if no other
	// exists. If another caller has renewed that key meanwhile, it returns the new one
	// without asking again.
	Renew(ctx context.Context, refused Secret) (Secret, error)
}

// Key implements Credential.
func (s Secret) Key(context.Context) (Secret, error) { return s, nil }

// Renew implements Credential: there is no other key.
func (s Secret) Renew(context.Context, Secret) (Secret, error) { return s, nil }

// maxKeys bounds the keys of a provider that answers are searched for. A key that was
// replaced so often is no longer valid.
const maxKeys = 4

// keyring takes keys from a credential and remembers them: one that was
// replaced is still a secret.
type keyring struct {
	provider string
	source   Credential // nil: no key

	mu   sync.Mutex
	seen []string // newest last
}

const (
	// Shorter keys are placeholders for servers that want none ("none",
	// "lm-studio"). Taking such a word out of an answer would corrupt it.
	minStreamSecret = 16
	// In an error a missing word does no harm.
	minErrorSecret = 6
)

func newKeyring(provider string, source Credential) *keyring {
	k := &keyring{provider: provider, source: source}
	if static, ok := source.(Secret); ok {
		k.remember(static)
	}
	return k
}

// key returns the key to use, checked.
func (k *keyring) key(ctx context.Context) (Secret, error) {
	if k.source == nil {
		return Secret{}, nil
	}
	secret, err := k.source.Key(ctx)
	if err != nil {
		return Secret{}, fmt.Errorf("find the key of provider %s: %w", k.provider, err)
	}
	return secret, k.take(secret)
}

// renew returns another key than refused, and false where there is none.
func (k *keyring) renew(ctx context.Context, refused Secret) (Secret, bool, error) {
	if k.source == nil {
		return Secret{}, false, nil
	}
	secret, err := k.source.Renew(ctx, refused)
	if err != nil {
		return Secret{}, false, fmt.Errorf("renew the key of provider %s: %w", k.provider, err)
	}
	if secret.Reveal() == refused.Reveal() {
		return Secret{}, false, nil
	}
	return secret, true, k.take(secret)
}

func (k *keyring) take(secret Secret) error {
	if err := checkKey(k.provider, secret); err != nil {
		return err
	}
	k.remember(secret)
	return nil
}

// remember makes sure that secret is taken out of all that is passed on from now.
func (k *keyring) remember(secret Secret) {
	k.mu.Lock()
	defer k.mu.Unlock()
	value := secret.Reveal()
	if value == "" || slices.Contains(k.seen, value) {
		return
	}
	k.seen = append(k.seen, value)
	if len(k.seen) > maxKeys {
		k.seen = k.seen[1:]
	}
}

// matcher finds the keys that were given out so far, of at least so many bytes.
func (k *keyring) matcher(atLeast int) *redact.Matcher {
	k.mu.Lock()
	defer k.mu.Unlock()
	return redact.NewMatcher(k.seen, atLeast)
}

// hide takes the keys out of an error or a header.
func (k *keyring) hide(text string) string { return k.matcher(minErrorSecret).Text(text) }
