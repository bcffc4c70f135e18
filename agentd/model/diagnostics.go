package model

// Stages at which an attempt fails.
const (
	StageSelect = "candidate_selection" // before anything was sent
	StageSend   = "send_request"        // no connection, or no answer
	StageStatus = "response_status"     // the answer is an error
	StageBody   = "read_body"           // the answer broke off
	StageDecode = "decode_body"         // the answer makes no sense, or tells of an error
)

// Diagnostics tell where between here and a provider an attempt failed (runtime
// specification, "Provider attempt timeline contract"). They hold no secret.
type Diagnostics struct {
	Stage    string
	URL      string // endpoint, without user, query and fragment
	Timeout  bool   // something took too long
	Connect  bool   // there was no connection
	Request  bool   // the request was not answered
	Body     bool   // the answer was not whole
	Decode   bool   // the answer could not be understood
	Redirect bool   // the answer led elsewhere
	Chain    []string
}
