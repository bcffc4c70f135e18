package state

import (
	"fmt"
	"strings"

	"holon/responses"
)

// conversationPrefix begins the ids of conversations.
const conversationPrefix = "ses_"

// NewConversationID returns an id that no other conversation has. Ids sort by time.
func NewConversationID() string { return responses.NewID(conversationPrefix) }

// CheckConversationID reports whether id can be a conversation's. A valid id is a safe file name. The error is an
// *Error with CodeInvalidSession.
func CheckConversationID(id string) error {
	err := responses.CheckID("session", id)
	if err == nil && len(id) > len(conversationPrefix) && strings.HasPrefix(id, conversationPrefix) {
		return nil
	}
	return &Error{Code: CodeInvalidSession, Param: "session",
		Message: fmt.Sprintf("%.80q is not the id of a session", id), Hint: "ids begin with " + conversationPrefix, Err: err}
}

// ConversationIDs lists the conversations that have a directory in the home.
func (h Home) ConversationIDs() (ids []string, err error) {
	all, err := names(h.SessionsDir())
	for _, id := range all {
		if CheckConversationID(id) == nil {
			ids = append(ids, id)
		}
	}
	return ids, err
}
