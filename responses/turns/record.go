package turns

import (
	"cmp"
	"fmt"
	"io/fs"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"holon/responses"
)

// Unrecorded begins the message of the error with which a turn ends that the server
// can't record any further.
const Unrecorded = "the turn cannot be recorded"

// recordSchema is the value of "schema" in every turn.json of this version. A
// change that an older reader would misread gets another number.
const recordSchema = "holon.turn/1"

// Names of the files in a turn's output directory.
const (
	RecordFile  = "turn.json"      // the Record
	JournalFile = "journal.ndjson" // all that the turn did, one Entry a line
	EventsFile  = "events.ndjson"  // of the journal: the Open Responses stream, one event a line
	RuntimeFile = "runtime.ndjson" // of the journal: RuntimeEvents, one a line
	FailureFile = "failure.json"   // the FailureReport of a turn that failed
	PatchFile   = "diff.patch"     // what an isolated turn changed in its tree; an artifact
	ToolsDir    = "tools"          // full outputs of tools
	// ArtifactsDir is what commands know as $HOLON_OUTPUT_DIR: all of it is theirs.
	ArtifactsDir = "artifacts"
	// ArgumentsFile, in the directory of a call in ToolsDir, has arguments that are too long for the call's event.
	ArgumentsFile = "arguments.json"

	ResponsesDir = "responses" // below --state-dir: the stored responses, a file each
	OpenDir      = "open"      // likewise those whose turns are not over

	// ContinuedMark is appended to a stored response when one that continued it is deleted: the next to continue it
	// begins a thread.
	ContinuedMark = `{"continued":true}` + "\n"
)

// Record is turn.json: what became of one turn. It is written when the turn is
// over, and before with each message that the user sends meanwhile; until then the
// first facts say as much (see RecordOf). A pointer that is
// nil and a Time that is zero are written as null; every key is always present.
type Record struct {
	Schema             string                   `json:"schema"`
	SessionID          string                   `json:"session_id"`
	TurnID             string                   `json:"turn_id"`
	ResponseID         string                   `json:"response_id"`
	PreviousResponseID *string                  `json:"previous_response_id"`
	Status             responses.Status         `json:"status"`
	CreatedAt          Time                     `json:"created_at"`   // the turn was accepted
	StartedAt          Time                     `json:"started_at"`   // it left the queue
	CompletedAt        Time                     `json:"completed_at"` // it reached a terminal status, whichever
	Model              string                   `json:"model"`        // provider/model, the one that answered
	Usage              *responses.Usage         `json:"usage"`
	Rounds             int                      `json:"rounds"` // model rounds begun
	ToolCalls          ToolCalls                `json:"tool_calls"`
	Error              *responses.ResponseError `json:"error"`
	IncompleteReason   *string                  `json:"incomplete_reason"`
	RequestDigest      string                   `json:"request_digest"` // responses.Request.Digest
	ProviderAttempts   *ProviderTimeline        `json:"provider_attempts"`
	FailureArtifact    *FailureArtifact         `json:"failure_artifact"` // set when the turn failed
	Inputs             []Input                  `json:"inputs"`           // what the user said while it ran, in order
	Skills             []string                 `json:"skills"`           // names of those that the turn could use
	IgnoredTools       []string                 `json:"ignored_tools"`    // types of the request's that are not offered
	Artifacts          []Artifact               `json:"artifacts"`
	Instance           string                   `json:"instance"` // the agentd process that owns the turn
	AgentdVersion      string                   `json:"agentd_version"`
}

// ToolCalls counts the tools that ran in the container during a turn.
type ToolCalls struct {
	Total  int            `json:"total"`
	Failed int            `json:"failed"`  // of Total; a command that exits non-zero did not fail as a tool
	ByName map[string]int `json:"by_name"` // Total, split by tool name
}

// maxCalled bounds ByName: a model may call tools that do not exist, each by another name.
const maxCalled = 1000

// Add counts one finished call.
func (c *ToolCalls) Add(name string, failed bool) {
	if c.ByName == nil {
		c.ByName = make(map[string]int)
	}
	c.Total++
	if _, seen := c.ByName[name]; seen || len(c.ByName) < maxCalled {
		c.ByName[name]++
	}
	if failed {
		c.Failed++
	}
}

// MarshalJSON writes the counts with a by_name that is never null.
func (c ToolCalls) MarshalJSON() ([]byte, error) {
	type plain ToolCalls // without this method
	return marshal(plain(c))
}

// Artifact is one file that a turn left in its output directory.
type Artifact struct {
	Path   string `json:"path"` // relative to the turn's output directory, with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // lower-case hex
}

// NewRecord returns the record of a turn that was just accepted, as resp says
// it stands: queued or in progress. instance and version name the agentd process.
func NewRecord(sessionID, turnID string, resp *responses.Response, digest, instance, version string,
	now time.Time) Record {
	r := Record{
		Schema:             recordSchema,
		SessionID:          sessionID,
		TurnID:             turnID,
		ResponseID:         resp.ID,
		PreviousResponseID: resp.PreviousResponseID,
		Status:             resp.Status,
		CreatedAt:          At(now),
		Model:              resp.Model,
		RequestDigest:      digest,
		Instance:           instance,
		AgentdVersion:      version,
	}
	if resp.Status != responses.StatusQueued {
		r.StartedAt = r.CreatedAt
	}
	return r
}

// RecordOf returns the record of a turn that has none yet, as its fact turn.submitted
// says, before which only a thread starts. It lacks what comes with turn.started.
func RecordOf(submitted RuntimeEvent) (*Record, error) {
	var p Submitted
	if submitted.Type != TurnSubmitted {
		return nil, invalid("type", fmt.Sprintf("the record of a turn follows from %s, not from %.64q", TurnSubmitted,
			submitted.Type))
	}
	if err := decode(submitted.Payload, &p); err != nil {
		return nil, err
	}
	resp := responses.Response{ID: p.ResponseID, Status: responses.StatusQueued}
	if p.PreviousResponseID != "" {
		resp.PreviousResponseID = &p.PreviousResponseID
	}
	r := NewRecord(submitted.SessionID, submitted.TurnID, &resp, p.RequestDigest,
		cmp.Or(p.Instance, submitted.RuntimeID), "", submitted.Timestamp.Time())
	return &r, r.check()
}

// Start adds what turn.started says; another fact adds nothing.
func (r *Record) Start(ev RuntimeEvent) {
	var p Started
	if ev.Type == TurnStarted && decode(ev.Payload, &p) == nil {
		r.Status, r.StartedAt, r.Model = responses.StatusInProgress, ev.Timestamp, p.Model
	}
}

// Settle copies the end of the turn from its terminal response: status, model,
// usage, error and reason. It sets CompletedAt to now.
func (r *Record) Settle(resp *responses.Response, now time.Time) {
	r.Status, r.Model, r.Usage, r.Error = resp.Status, resp.Model, resp.Usage, resp.Error
	r.IncompleteReason = nil
	if d := resp.IncompleteDetails; d != nil {
		reason := d.Reason
		r.IncompleteReason = &reason
	}
	r.FailureArtifact = nil
	if resp.Status == responses.StatusFailed {
		r.FailureArtifact = failureOf(resp.Error)
	}
	r.CompletedAt = At(now)
}

// MarshalJSON writes every key, with lists that are never null.
func (r Record) MarshalJSON() ([]byte, error) {
	type plain Record // without this method
	return marshal(plain(r))
}

// Encode returns the text of turn.json: indented, for people read it too.
func (r Record) Encode() ([]byte, error) {
	type plain Record // without MarshalJSON
	b, err := marshal(plain(r), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", RecordFile, err)
	}
	return append(b, '\n'), nil
}

// maxArtifacts bounds the artifacts that a record may list.
const maxArtifacts = 100_000

// DecodeRecord reads turn.json and checks all that a reader relies on: the
// schema, ids that are safe as file names, a known status, and artifact paths
// that stay within the turn's directory. Errors are *responses.Error values
// that name the key.
func DecodeRecord(data []byte) (*Record, error) {
	var r Record
	if err := decode(data, &r); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return &r, nil
}

// check refuses a record that no agentd writes.
func (r *Record) check() error {
	if r.Schema != recordSchema {
		return invalid("schema", fmt.Sprintf("schema must be %s, not %.64q; use the holon that fits this agentd",
			recordSchema, r.Schema))
	}
	for _, id := range []struct{ key, value string }{{"session_id", r.SessionID}, {"turn_id", r.TurnID},
		{"response_id", r.ResponseID}} {
		if err := responses.CheckID(id.key, id.value); err != nil {
			return err
		}
	}
	if !knownStatus(r.Status) {
		return invalid("status", fmt.Sprintf("status %.64q is unknown", r.Status))
	}
	if r.CreatedAt.IsZero() {
		return invalid("created_at", "created_at must not be null")
	}
	if r.Status.Terminal() && r.CompletedAt.IsZero() {
		return invalid("completed_at", fmt.Sprintf("completed_at must not be null when the status is %s", r.Status))
	}
	if r.Rounds < 0 || r.ToolCalls.Total < 0 || r.ToolCalls.Failed < 0 || r.ToolCalls.Failed > r.ToolCalls.Total {
		return invalid("tool_calls", "rounds and tool_calls must be counts, with no more failed than total")
	}
	return r.checkLists()
}

func (r *Record) checkLists() error {
	attempts := 0
	if r.ProviderAttempts != nil {
		attempts = len(r.ProviderAttempts.Attempts)
	}
	for _, list := range []struct {
		key, what string
		n, most   int
	}{{"provider_attempts", "attempts", attempts, maxTimeline}, {"inputs", "messages", len(r.Inputs), MaxInputs},
		{"artifacts", "files", len(r.Artifacts), maxArtifacts}} {
		if list.n > list.most {
			return invalid(list.key, fmt.Sprintf("%s may list at most %d %s, this lists %d", list.key, list.most,
				list.what, list.n))
		}
	}
	for i, in := range r.Inputs {
		if err := in.check(fmt.Sprintf("inputs[%d]", i)); err != nil {
			return err
		}
	}
	for i, a := range r.Artifacts {
		if err := a.Check(fmt.Sprintf("artifacts[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

// Check refuses an artifact that no record may have. key is its own, which the *responses.Error names.
func (a Artifact) Check(key string) error {
	if a.Path == "." || !fs.ValidPath(a.Path) {
		return invalid(key+".path", fmt.Sprintf("path %.64q must be relative and stay within the turn's directory",
			a.Path))
	}
	if a.Bytes < 0 {
		return invalid(key+".bytes", "bytes must not be negative")
	}
	if !isDigest(a.SHA256) {
		return invalid(key+".sha256", "sha256 must be 64 lower-case hex digits")
	}
	return nil
}

func knownStatus(s responses.Status) bool {
	return s.Terminal() || s == responses.StatusQueued || s == responses.StatusInProgress
}

func isDigest(s string) bool {
	if len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
