package gateway

import (
	"fmt"
	"io"
	"log/slog"

	"holon/internal/redact"
)

// Secret is a value that is used but never shown: every way of formatting,
// encoding or logging it writes "[redacted]" (and nothing where it is empty).
// It is kept behind a pointer because fmt prints an unexported field without
// asking its methods, but prints a pointer as an address.
type Secret struct{ value *string }

// NewSecret returns value as a Secret.
func NewSecret(value string) Secret { return Secret{&value} }

// Reveal returns the value. Call it where the value is sent and nowhere else.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether the value is empty.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// String returns "[redacted]", or "" for an empty secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redact.Mask
}

// GoString returns what String does.
func (s Secret) GoString() string { return s.String() }

// Format writes what String returns, for every verb: %x and %d too.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue hides the value from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the value from encoders of text, JSON, YAML and map keys.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON hides the value from encoding/json.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// UnmarshalText takes the value from a configuration file or an environment.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}
