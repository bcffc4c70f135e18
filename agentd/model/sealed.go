package model

import "strings"

// Seal marks opaque reasoning as that of one provider. A conversation may continue
// with another provider (a fallback, a request that names another model), which
// refuses reasoning that it did not write.
func Seal(provider, content string) string { return provider + ":" + content }

// Unseal returns the content that Seal marked for the provider; ok is false for
// content of another.
func Unseal(provider, sealed string) (content string, ok bool) {
	return strings.CutPrefix(sealed, provider+":")
}

// Sealed reports whether opaque reasoning carries a mark. That of the Responses
// API has none and is base64, which has no colon.
func Sealed(content string) bool { return strings.Contains(content, ":") }
