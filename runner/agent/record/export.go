package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"holon/responses/agentruntime"
)

// maxDocument bounds the events of a document, in bytes.
const maxDocument = 48 << 20

// Manifest says what a document is, and how to check it.
type Manifest struct {
	Kind            string            `json:"kind"` // evidence, replay, review
	SchemaVersion   string            `json:"schema_version"`
	AgentID         string            `json:"agent_id"`
	RuntimeID       string            `json:"runtime_id"`
	SessionID       string            `json:"session_id"`
	ThreadID        string            `json:"thread_id"`
	ThroughSequence int64             `json:"through_sequence"` // the cut: the last event that counts
	EventCount      int64             `json:"event_count"`      // of the record up to the cut
	Determinism     string            `json:"determinism,omitempty"`
	Digests         map[string]string `json:"digests"`    // sha256 of each part; of events: of their lines of JSON
	KnownGaps       []gap             `json:"known_gaps"` // ranges of the record that are not there
	Unclassified    bool              `json:"unclassified"`
}

// Document is an export of an agent's record at a cut. Its statuses are those of the read models at that cut.
type Document struct {
	Manifest   Manifest             `json:"manifest"`
	Events     []agentruntime.Event `json:"events,omitempty"`      // all of them; a review has none
	Failures   []agentruntime.Event `json:"failures"`              // what failed or was denied
	ReadModels map[string]any       `json:"read_models,omitempty"` // a replay has none: it makes them

	fold  *Fold
	lines hash.Hash
	size  int
}

// kinds says which parts a document has.
var kinds = map[string]struct{ events, models bool }{
	"evidence": {true, true}, "replay": {true, false}, "review": {false, true}}

// NewDocument returns an empty document of a kind: evidence, replay or review.
func NewDocument(kind, agentID string) (*Document, bool) {
	_, ok := kinds[kind]
	d := &Document{Manifest: Manifest{Kind: kind, SchemaVersion: agentruntime.SchemaVersion, AgentID: agentID},
		Failures: []agentruntime.Event{}, fold: New(agentID), lines: sha256.New()}
	if kind == "replay" {
		d.Manifest.Determinism = "recorded" // answers of models and results of tools are read, not asked for again
	}
	return d, ok
}

// Add adds the next event. It is false when the document would be too large.
func (d *Document) Add(e *agentruntime.Event) bool {
	line, err := encode(e)
	if err != nil {
		line = nil // no event that was decoded
	}
	failed := failure(e)
	if kinds[d.Manifest.Kind].events {
		d.Events = append(d.Events, *e)
		d.size += len(line)
	}
	if failed {
		d.Failures = append(d.Failures, *e)
		d.size += len(line)
	}
	d.lines.Write(append(line, '\n'))
	d.fold.Apply(e)
	d.Manifest.EventCount++
	return d.size <= maxDocument
}

// failure reports whether an event says that something failed or was denied. It needs no window: an export has all.
func failure(e *agentruntime.Event) bool {
	failures := []string{"turn.failed", "model.failed", "tool.failed", "process.failed", "task.failed", "task.lost",
		"task.timed_out", "task.attempt.failed", "hook.failed", "context.compaction.failed", "sandbox.violation",
		"routing.not_possible", "quota.blocked", "rate_limit.hit", "runtime.error", "subagent.failed", "job.failed",
		"job.item.failed"}
	if e.Type == "permission.evaluated" || e.Type == "permission.resolved" {
		return read(e).text("decision") == "deny"
	}
	return slices.Contains(failures, e.Type)
}

// Close ends the document at a cut: it gets its read models, its digests and its gaps.
func (d *Document) Close(through int64) error {
	if d.fold.lack(through); through > d.fold.head.ThroughSequence {
		d.fold.head.ThroughSequence, d.fold.head.Unclassified = through, true
	}
	head, m := d.fold.head, &d.Manifest
	m.RuntimeID, m.SessionID, m.ThreadID = or(head.RuntimeID), or(head.SessionID), or(head.ThreadID)
	m.ThroughSequence, m.KnownGaps, m.Unclassified = head.ThroughSequence, head.Missing, head.Unclassified
	m.Digests = map[string]string{"events": "sha256:" + hex.EncodeToString(d.lines.Sum(nil))}
	if !kinds[m.Kind].models {
		return nil
	}
	d.ReadModels = map[string]any{}
	for _, name := range Names() {
		d.ReadModels[name], _ = d.fold.Model(name)
		text, err := encode(d.ReadModels[name])
		if err != nil {
			return err
		}
		digest := sha256.Sum256(text)
		m.Digests["read_models."+name] = "sha256:" + hex.EncodeToString(digest[:])
	}
	return nil
}

// Encode returns the document as JSON whose parts have the bytes that the digests are of.
func (d *Document) Encode() ([]byte, error) { return encode(d) }

// encode returns v as compact JSON as jq -c writes it: what package json escapes for the sake of HTML and JavaScript is
// plain, and DEL is escaped. So a digest can be computed without this program.
func encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	text := jsontext.Value(data)
	err = text.Compact(jsontext.PreserveRawStrings(false))
	return bytes.ReplaceAll(text, []byte{0x7f}, []byte(`\u007f`)), err
}
