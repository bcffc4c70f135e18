package responses

import "strings"

// PrefixInterjected begins the ids of messages that the user sent while a turn
// ran (POST /turns/{id}/input). They stand in the conversation where the model
// was told them, in the middle of that turn, and begin no turn of their own.
const PrefixInterjected = PrefixMessage + "interjected_"

// IsInterjected reports whether item is a message that came while a turn ran.
func IsInterjected(item Item) bool {
	m, ok := item.(*Message)
	return ok && m.Role == RoleUser && strings.HasPrefix(m.ID, PrefixInterjected)
}
