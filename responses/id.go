package responses

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"
)

// Prefixes of the ids that this project mints. The prefix says what an id
// names, so that a log line can be read without its context.
const (
	PrefixResponse     = "resp_"
	PrefixTurn         = "turn_"
	PrefixSession      = "sess_"
	PrefixMessage      = "msg_"
	PrefixReasoning    = "rs_"
	PrefixCall         = "fc_"
	PrefixCallID       = "call_"
	PrefixCallOutput   = "fco_"
	PrefixToolCall     = "tc_"
	PrefixAction       = "act_"
	PrefixCompaction   = "cmp_"
	PrefixRequest      = "req_"
	PrefixEvent        = "evt_"
	PrefixRun          = "run_"
	PrefixModelRequest = "mr_"
	PrefixInstance     = "inst_"
	PrefixRuntime      = "rt_"
	PrefixThread       = "thread_"
)

// NewID returns prefix followed by a ULID in lower case: 48 bits of time in milliseconds, then 80 random bits. Ids sort
// by creation time to the millisecond, and those of one process also within it. They name things and grant nothing;
// never use one as a secret.
func NewID(prefix string) string {
	entropy.Lock()
	defer entropy.Unlock()
	return prefix + strings.ToLower(ulid.MustNew(ulid.Now(), entropy.source).String())
}

// entropy adds a random number to the id before it within a millisecond. Its lock covers the reading of the clock, so
// that no older time comes after a newer one.
var entropy = struct {
	sync.Mutex
	source *ulid.MonotonicEntropy
}{source: ulid.Monotonic(rand.Reader, 0)}

// CheckID reports whether id may name a session, turn or response: 1 to 128
// characters of [A-Za-z0-9_-]. That excludes separators, dots and control
// characters, so a valid id is always a safe file name. The error is an
// *Error that names param.
func CheckID(param, id string) error {
	if id == "" || len(id) > maxID {
		return Invalid(param, CodeInvalidValue,
			fmt.Sprintf("%s must have 1 to %d characters, this has %d", param, maxID, len(id)))
	}
	for i := range len(id) {
		if !isIDByte(id[i]) {
			r, _ := utf8.DecodeRuneInString(id[i:])
			return Invalid(param, CodeInvalidValue,
				fmt.Sprintf("%s may hold only letters, digits, '_' and '-', but has %q at offset %d", param, r, i))
		}
	}
	return nil
}

func isIDByte(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// PrefixContext begins the ids of context items: the messages by which agentd
// tells a model its instructions (package agentd/prompt). They are stored with
// a conversation, before the input of the turn that added them, so that a
// continued conversation begins with exactly the same text. They are not part of
// the client's input: they are not listed there, and a client cannot make or
// refer to one.
const PrefixContext = "ctx_"

// IsContext reports whether item is a context item.
func IsContext(item Item) bool {
	return strings.HasPrefix(item.ItemID(), PrefixContext)
}

// PrefixInterjected begins the ids of messages that the user sent while a turn
// ran (POST /turns/{id}/input). They stand in the conversation where the model
// was told them, in the middle of that turn, and begin no turn of their own.
const PrefixInterjected = PrefixMessage + "interjected_"

// IsInterjected reports whether item is a message that came while a turn ran.
func IsInterjected(item Item) bool {
	m, ok := item.(*Message)
	return ok && m.Role == RoleUser && strings.HasPrefix(m.ID, PrefixInterjected)
}
