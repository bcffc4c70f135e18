package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

func TestMatcherFindsBase64AtAnyOffset(t *testing.T) {
	const secret = "abcdefghijklmnop/+?~"
	r := NewMatcher([]string{secret}, 16)
	for before := range 7 {
		for after := range 7 {
			text := strings.Repeat("<", before) + secret + strings.Repeat(">", after)
			for name, encoded := range map[string]string{
				"std": base64.StdEncoding.EncodeToString([]byte(text)),
				"url": base64.URLEncoding.EncodeToString([]byte(text)),
			} {
				got := r.Text(encoded)
				if !strings.Contains(got, Mask) {
					t.Errorf("%d bytes before, %d after, %s: %s", before, after, name, got)
				}
				// At most the characters shared with the neighbours are left.
				if left := len(got) - len(Mask); left > len(encoded)-len(secret)*4/3+2 {
					t.Errorf("%d of %d characters left: %s", left, len(encoded), got)
				}
			}
		}
	}
}

func TestShortKeysStayInStreams(t *testing.T) {
	for _, tc := range []struct {
		key     string
		atLeast int
		want    string
	}{
		{"not-needed", 16, "it is not-needed here"},
		{"not-needed", 6, "it is [redacted] here"},
		{"none", 6, "it is not-needed here"},
		{"", 6, "it is not-needed here"},
	} {
		if got := NewMatcher([]string{tc.key}, tc.atLeast).Text("it is not-needed here"); got != tc.want {
			t.Errorf("key %q from %d bytes: %q", tc.key, tc.atLeast, got)
		}
	}
}

// A stream cut anywhere says the same as the whole, and never holds back more
// than could be a part of the secret.
func FuzzStream(f *testing.F) {
	f.Add("sk-0123456789abcdef", []byte("a sk-0123456789abcdef b"), byte(1))
	f.Add("aaaaaaaaaaaaaaaaaaaa", []byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), byte(3))
	f.Add("abababababababababab\"/<", []byte("ababababababababababababababababab\"/<"), byte(7))
	f.Add("sk-0123456789abcdef", []byte("data: {\"x\":\"sk-01234\"}\n\n56789abcdef"), byte(2))
	f.Fuzz(func(t *testing.T, secret string, data []byte, size byte) {
		if len(secret) < 16 || len(secret) > 512 || strings.ContainsAny(secret, "\r\n") {
			t.Skip()
		}
		r := NewMatcher([]string{secret}, 16)
		for _, form := range []string{secret, url.QueryEscape(secret), hex.EncodeToString([]byte(secret))} {
			data = append(append(data, form...), '\n')
		}
		if quoted, err := json.Marshal(secret); err == nil {
			data = append(append(data, quoted...), '\n')
		}
		s := NewStream(r)
		var got bytes.Buffer
		step := max(1, int(size))
		for at := 0; at < len(data); at += step {
			got.Write(s.Next(data[at:min(len(data), at+step)]))
			if n := len(s.held); n >= len(r.forms[0]) {
				t.Fatalf("%d bytes held back", n)
			}
		}
		if len(s.held) > 0 {
			t.Errorf("%q held back at a line end", s.held)
		}
		for _, form := range r.forms {
			if bytes.Contains(got.Bytes(), form) {
				t.Errorf("%q left in %q", form, got.Bytes())
			}
		}
	})
}
