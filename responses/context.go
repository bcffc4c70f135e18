package responses

import "strings"

// PrefixContext begins the ids of context items: the messages by which agentd
// tells a model its instructions (package agentd/prompt). They are stored with
// a conversation, before the input of the turn that added them, so that a
// continued conversation begins with exactly the same text. They are no input
// of the client's: they are not listed as such, and a client cannot make or
// refer to one.
const PrefixContext = "ctx_"

// IsContext reports whether item is a context item.
func IsContext(item Item) bool {
	return strings.HasPrefix(item.ItemID(), PrefixContext)
}
