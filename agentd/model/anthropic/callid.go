package anthropic

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strings"
)

// The calls of one answer must be sent back as one message and their results as the
// next, in every round, or the provider's cache misses. Items do not say which
// calls were made together: two in a row may be two rounds. So an id of ours is
// the provider's id, a tilde, and a tag of the answer: toolu_01AB~k3f9qa.
const (
	tagMark = "~"
	tagSize = 6
)

// maxCallID is how long the id of a call may be (Open Responses, "call_id").
const maxCallID = 64

// tagOf returns the tag of the calls of an answer.
func tagOf(messageID string) string {
	sum := sha256.Sum256([]byte(messageID))
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:tagSize]
}

// splitCallID returns the provider's id and the tag of ours. The id of a call
// that another provider made has no tag.
func splitCallID(id string) (provider, tag string) {
	at := len(id) - tagSize - len(tagMark)
	if at < 1 || id[at:at+len(tagMark)] != tagMark {
		return id, ""
	}
	return id[:at], id[at+len(tagMark):]
}

// wireIDs gives each call of a conversation a unique id that the API accepts: of
// letters, digits, '_' and '-'. The same conversation gets the same ids, and a
// longer one begins with them.
type wireIDs map[string]bool

func (used wireIDs) next(callID string) string {
	id, _ := splitCallID(callID)
	for n := 1; !plainID(id) || used[id]; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", n, callID))
		id = "call_" + hex.EncodeToString(sum[:12])
	}
	used[id] = true
	return id
}

func plainID(id string) bool { return id != "" && len(id) <= maxCallID && plainName(id) == id }

// plainName replaces characters that the API accepts neither in an id nor in a
// tool's name.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}
