package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
)

// ManifestSchema is the value of "schema" in every manifest.json of this
// version. A change that an older reader would misread gets another number.
const ManifestSchema = "holon.run/1"

// Names of the host's files in a run's directories.
const (
	ManifestFile = "manifest.json"    // the Manifest
	StartFile    = "run.json"         // the Start, in the run's own directory only
	LeaseFile    = "lease"            // held while the run is live, in its own directory only
	UsageFile    = "model-usage.json" // what its turn took of models so far, next to SessionFile
	SessionFile  = "session.json"     // what a live run holds (sessions.Record), in its own directory only
)

const (
	// MaxManifest bounds manifest.json, in bytes.
	MaxManifest = 32 << 20
	// MaxArtifacts bounds the results that a manifest lists.
	MaxArtifacts = 50_000

	maxWarnings = 1000
	maxNotes    = 1000
)

// Artifact is one file among the results: path relative to the output
// directory with slashes, size in bytes, digest in lower-case hex.
type Artifact = turns.Artifact

// Manifest is manifest.json: what became of a run. It is written when the run
// is over. Every key is always present; a nil pointer and a zero
// Time are null.
type Manifest struct {
	Schema      string     `json:"schema"`
	RunID       string     `json:"run_id"`
	ParentRunID string     `json:"parent_run_id"` // the run that this one continues, or empty
	Name        string     `json:"name"`
	Task        string     `json:"task"` // first line of the prompt, shortened
	Status      Status     `json:"status"`
	Outcome     Outcome    `json:"outcome"`
	ExitCode    int        `json:"exit_code"` // Outcome.ExitCode
	StartedAt   turns.Time `json:"started_at"`
	CompletedAt turns.Time `json:"completed_at"`
	Timings     Timings    `json:"timings"`
	Model       string     `json:"model"` // provider/model that was asked for
	// as the gateway metered, or else as the agent counts
	Usage      *turns.Usage `json:"usage"`
	ModelUsage *Account     `json:"model_usage"` // as the gateway metered; null where no provider was asked
	Engine     Engine       `json:"engine"`
	// Provider is what was tried to get the turn's answers, and the model that gave the last; null where no turn was
	// recorded, and of a run with attempts.
	Provider     *turns.ProviderTimeline `json:"provider_attempt_timeline"`
	Image        string                  `json:"image"`     // empty where the engine has no images
	Toolchain    []Tool                  `json:"toolchain"` // programs that the files of the workspace need
	Limits       Limits                  `json:"limits"`
	Isolation    *Isolation              `json:"isolation"` // as read back from the engine
	Services     []Service               `json:"services"`  // what ran next to the agent; of attempts, each has its own
	Egress       *Egress                 `json:"egress"`    // null: no host could be reached but through --network
	Workspace    *Workspace              `json:"workspace"` // null when the run ended before it was known
	Turn         *TurnRef                `json:"turn"`      // null when no turn was accepted
	Checked      *Check                  `json:"check"`     // null: none was asked for, or each attempt has its own
	Attempts     []Attempt               `json:"attempts"`  // of a run that made several, by number; else empty
	Winner       int                     `json:"winner"`    // number of the best attempt that passed; 0: none, or a tie
	Judge        *Judge                  `json:"judge"`     // null: none was asked
	Artifacts    []Artifact              `json:"artifacts"`
	Notes        []Note                  `json:"notes"` // what the agent noted for people, the oldest first
	Warnings     []string                `json:"warnings"`
	Error        *Failure                `json:"error"`
	HolonVersion string                  `json:"holon_version"`
}

// Answered is the model, and after a fallback the one that answered in its place.
func (m *Manifest) Answered() string {
	if p := m.Provider; p != nil && p.WinningModelRef != "" && p.WinningModelRef != m.Model {
		return m.Model + ", answered by " + p.WinningModelRef
	}
	return m.Model
}

// Tool is a program that a file of the workspace is for.
type Tool struct {
	Program string `json:"program"` // its name on PATH
	File    string `json:"file"`    // path in the workspace, with slashes
	Present bool   `json:"present"` // the container has it

	Requires string `json:"requires,omitempty"` // the lowest version that the file asks for
	Below    string `json:"below,omitempty"`    // the first version that is too new for it
	Version  string `json:"version,omitempty"`  // of the container's, where that is known
}

// Note is what an agent attached to the record of its run. The text has no
// characters that a terminal obeys; it is the agent's all the same.
type Note struct {
	At   turns.Time `json:"at"`
	Kind string     `json:"kind"` // note, decision, todo, …
	Text string     `json:"text"`
}

// Timings are the durations of the phases of a run in milliseconds; 0 for a
// phase that was not reached.
type Timings struct {
	PrepareMS int64 `json:"prepare_ms"`
	StartMS   int64 `json:"start_ms"`
	TurnMS    int64 `json:"turn_ms"`
	CollectMS int64 `json:"collect_ms"`
	StopMS    int64 `json:"stop_ms"`
	TotalMS   int64 `json:"total_ms"`
}

// Engine names what ran the container.
type Engine struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Runtime     string `json:"runtime"`      // what runs containers in it; empty when none was made, or there are none
	ContainerID string `json:"container_id"` // empty when none was made
}

// Limits are those that were in force; 0 means none.
type Limits struct {
	TimeoutMS     int64   `json:"timeout_ms"`
	MaxRounds     int     `json:"max_rounds"`
	MaxToolCalls  int     `json:"max_tool_calls"`
	MaxOutput     int64   `json:"max_output_bytes"` // of the turn's output directory, its streams included
	DiskBytes     int64   `json:"disk_bytes"`       // that the run may write
	MemoryBytes   int64   `json:"memory_bytes"`
	CPUs          float64 `json:"cpus"`
	Pids          int64   `json:"pids"`
	MaxTokens     int64   `json:"max_tokens"`
	MaxRequests   int64   `json:"max_requests"`    // to models
	MaxCostMicros int64   `json:"max_cost_micros"` // millionths of the unit of the prices
}

// Service is a container that ran next to the agent's, and shared its network.
type Service struct {
	Name        string    `json:"name"` // by which the agent reached it
	Image       string    `json:"image"`
	ImageID     string    `json:"image_id"`
	Env         []string  `json:"env"`   // names of the variables that it was given
	Ports       []int     `json:"ports"` // at which it takes connections, as its image says
	ContainerID string    `json:"container_id"`
	Isolation   Isolation `json:"isolation"` // as read back from the engine
}

// Egress is what the container was let out to.
type Egress struct {
	AllowHosts   []string `json:"allow_hosts"`   // as they were compared
	PrivateHosts []string `json:"private_hosts"` // of the operator's network, HOST:PORT=ADDRESS
	Allowed      int64    `json:"allowed"`       // connections
	Denied       int64    `json:"denied"`
}

// TurnRef names the turn of a run in agentd's records.
type TurnRef struct {
	TurnID     string `json:"turn_id"`
	ResponseID string `json:"response_id"`
	SessionID  string `json:"session_id"`
}

// Failure is why a run did not succeed.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param"`
	Hint    string `json:"hint"`
}

// Check reports the first key whose value no manifest may have, as an *Error
// with CodeManifestInvalid.
func (m *Manifest) Check() error {
	if m.Schema != ManifestSchema {
		return invalid("schema", "use the holon that wrote it, or a newer one", "schema is %.64q, not %s", m.Schema,
			ManifestSchema)
	}
	if err := CheckRunID(m.RunID); err != nil {
		return invalid("run_id", "", "run_id %.80q is not the id of a run", m.RunID)
	}
	if !m.Status.Terminal() {
		return invalid("status", "write a manifest when the run is over", "status %.64q is not an end",
			string(m.Status))
	}
	if !m.Outcome.known() || m.ExitCode != m.Outcome.ExitCode() {
		return invalid("outcome", "", "outcome %.64q with exit code %d does not exist", string(m.Outcome), m.ExitCode)
	}
	if m.StartedAt.IsZero() || m.CompletedAt.IsZero() {
		return invalid("completed_at", "", "started_at and completed_at must be set")
	}
	if len(m.Warnings) > maxWarnings {
		return invalid("warnings", "", "%d warnings, at most %d are allowed", len(m.Warnings), maxWarnings)
	}
	if len(m.Notes) > maxNotes {
		return invalid("notes", "", "%d notes, at most %d are allowed", len(m.Notes), maxNotes)
	}
	return m.checkArtifacts()
}

func (m *Manifest) checkArtifacts() error {
	if len(m.Artifacts) > MaxArtifacts {
		return invalid("artifacts", "", "%d artifacts, at most %d are allowed", len(m.Artifacts), MaxArtifacts)
	}
	for i, a := range m.Artifacts {
		if e, ok := errors.AsType[*responses.Error](a.Check(fmt.Sprintf("artifacts[%d]", i))); ok {
			return invalid(e.Param, "", "%s", e.Message)
		}
	}
	return nil
}

// Encode checks m and returns the text of manifest.json: indented, for people
// read it too. Characters that can't be seen are written as escapes.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	whole := *m
	if whole.Artifacts == nil {
		whole.Artifacts = []Artifact{}
	}
	if whole.Toolchain == nil {
		whole.Toolchain = []Tool{}
	}
	if whole.Services == nil {
		whole.Services = []Service{}
	}
	if whole.Notes == nil {
		whole.Notes = []Note{}
	}
	if whole.Attempts == nil {
		whole.Attempts = []Attempt{}
	}
	if whole.Warnings == nil {
		whole.Warnings = []string{}
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(&whole); err != nil {
		return nil, fmt.Errorf("encode %s: %w", ManifestFile, err)
	}
	text := visible.JSON(b.Bytes())
	if len(text) > MaxManifest {
		return nil, invalid("", "keep fewer results", "%s would have %d bytes, at most %d are allowed", ManifestFile,
			len(text), MaxManifest)
	}
	return text, nil
}

// DecodeManifest reads and checks manifest.json. Keys it does not know are
// those of a newer version and are ignored. Errors are *Error with
// CodeManifestInvalid.
func DecodeManifest(data []byte) (*Manifest, error) {
	if len(data) > MaxManifest {
		return nil, invalid("", "", "%s has %d bytes, at most %d are allowed", ManifestFile, len(data), MaxManifest)
	}
	var m Manifest
	if err := decode(data, ManifestFile, &m); err != nil {
		return nil, err
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	return &m, nil
}

// Encode returns the text of run.json.
func (s Start) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", StartFile, err)
	}
	return append(b, '\n'), nil
}

// DecodeStart reads run.json and checks what a reader relies on. Errors are
// *Error with CodeManifestInvalid.
func DecodeStart(data []byte) (*Start, error) {
	var s Start
	if err := decode(data, StartFile, &s); err != nil {
		return nil, err
	}
	if s.Schema != StartSchema {
		return nil, invalid("schema", "use the holon that wrote it, or a newer one", "schema is %.64q, not %s",
			s.Schema, StartSchema)
	}
	if CheckRunID(s.RunID) != nil {
		return nil, invalid("run_id", "", "run_id %.80q is not the id of a run", s.RunID)
	}
	return &s, nil
}

// decode reads one JSON object; null and lists are none.
func decode(data []byte, file string, into any) error {
	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '{' {
		return invalid("", "", "%s is not a JSON object", file)
	}
	err := json.Unmarshal(data, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return invalid(wrong.Field, "", "%s cannot be a %s", wrong.Field, wrong.Value)
	}
	if err != nil {
		return &Error{Code: CodeManifestInvalid, Message: "can't read " + file, Err: err}
	}
	return nil
}

func invalid(param, hint, format string, args ...any) *Error {
	return &Error{Code: CodeManifestInvalid, Param: param, Hint: hint,
		Message: "manifest: " + fmt.Sprintf(format, args...)}
}
