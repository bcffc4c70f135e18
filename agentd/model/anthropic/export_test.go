package anthropic

// For tests of the package from outside.
var (
	ContractOf    = contractOf
	EncodeRequest = encodeRequest
	ClosedSchema  = closedSchema
)

// TagCallID returns the id of ours for a call of an answer.
func TagCallID(id, messageID string) string { return id + tagMark + tagOf(messageID) }
