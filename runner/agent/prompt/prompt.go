// Package prompt assembles the prompt of a turn: the agent's identity, how it works,
// why it woke, and the message with its provenance.
//
// A Prompt consists of blocks that state how long they stay valid. stable and
// agent-scoped blocks become the instructions of the request, byte for byte the
// same while nothing in them changes, so that agentd sends a model only changes;
// turn-scoped blocks become its input. agentd itself adds its policy, the AGENTS.md
// files, skills and tools, so they are not repeated here.
//
// The invariant: no text of a message can pass for what the prompt says about the
// message. The text stands between two lines that contain a digest of that text. A
// Prompt is a value without clock or disk: the same input gives the same prompt.
package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state"
	"holon/state/ledger"
)

// stability says how long a block stays unchanged.
type stability string

const (
	stable      stability = "stable"
	agentScoped stability = "agent_scoped"
	turnScoped  stability = "turn_scoped"
)

// block is one part of a prompt (runtime specification, "Provider Prompt Frame").
type block struct {
	Text       string    `json:"text"`
	Stability  stability `json:"stability"`
	Breakpoint bool      `json:"cache_breakpoint"`
}

// cacheKeys identifies a prompt for providers that cache prefixes.
type cacheKeys struct {
	AgentID               string `json:"agent_id"`
	PromptCacheKey        string `json:"prompt_cache_key"`        // of the agent and what is not of the turn; it is sent
	ContextFingerprint    string `json:"context_fingerprint"`     // of all
	WorkingMemoryRevision int64  `json:"working_memory_revision"` // that the conversation knows with it
	CompressionEpoch      int64  `json:"compression_epoch"`       // compactions before it
}

// Prompt is sent with a turn, and recorded with it.
type Prompt struct {
	SystemPrompt  string    `json:"system_prompt"` // the texts of SystemBlocks
	SystemBlocks  []block   `json:"system_blocks"`
	ContextBlocks []block   `json:"context_blocks"`
	Cache         cacheKeys `json:"cache"`
	Mode          string    `json:"mode,omitempty"`        // task for a private child
	WorkDigest    string    `json:"work_digest,omitempty"` // of the work items that the conversation knows with it

	// CuratedShown has digests of the curated files that the conversation knows with it, by path.
	CuratedShown map[string]string `json:"curated_shown,omitempty"`

	past    int           // ContextBlocks of what is remembered, the first ones
	Curated []CuratedFile `json:"-"` // as they were when it was made
	Took    time.Duration `json:"-"` // that it was made in
}

// Report is the prompt that a text would be sent in, and what agentd makes of it for the model.
type Report struct {
	Prompt
	view.Binding
	Request *turns.Preview `json:"request,omitempty"`
	Unknown *state.Failure `json:"unknown,omitempty"` // why there is no Request
}

// Input is what Assemble needs to know.
type Input struct {
	scheduler.Claim
	Changed []string      // files of the message that are not as they were sent
	Queued  int           // messages that wait behind this one
	Recent  []EarlierTurn // the newest turns, oldest first; shown when the conversation begins anew
	Memory  Memory
	Budget  int64 // tokens of a conversation; 0: no bound
	Work    Work
	Workspaces
	Now time.Time
}

// begins reports whether the conversation begins: no response is continued.
func (in Input) begins() bool { return in.Attempt.Chain == "" }

// space is how many bytes of what is remembered a conversation begins with: half of its budget.
func (in Input) space() int {
	if in.Budget <= 0 {
		return math.MaxInt32
	}
	return int(min(in.Budget*bytesPerToken/2, math.MaxInt32))
}

// EarlierTurn is one before this turn.
type EarlierTurn struct {
	At      time.Time
	Kind    ledger.MessageKind
	Message string // the message
	Answer  string // the last text of the agent; "": none
	Ended   string // why it was cut short; "": it was not
}

// Assemble makes the prompt.
func Assemble(in Input) Prompt {
	p := Prompt{SystemBlocks: []block{
		{Text: runtimeGuide, Stability: stable},
		{Text: identity(in.Agent), Stability: agentScoped, Breakpoint: true},
	}}
	if in.Agent.Kind == ledger.KindChild {
		p.Mode, p.SystemBlocks[0].Text, p.SystemBlocks[1].Text = modeTask, taskGuide, childIdentity(in.Agent)
	}
	space := in.space()
	in.Memory.show(&p, in.begins(), space)
	if in.begins() {
		p.add(recent(in.Recent, min(maxRecent, space-len(p.Prompt()))))
	}
	p.past = len(p.ContextBlocks)
	work, digestOfWork := in.Work.projection()
	p.WorkDigest = digestOfWork
	p.add(work)
	p.add(in.Workspaces.block(in.Agent))
	p.add(situation(in))
	p.add(labelled(in.Message, in.Changed))
	p.SystemPrompt = texts(p.SystemBlocks)
	p.Cache = cacheKeys{AgentID: in.Agent.ID, PromptCacheKey: "agent-" + digest(in.Agent.ID, p.SystemPrompt)[:32],
		ContextFingerprint: digest(p.SystemPrompt, p.Prompt()), WorkingMemoryRevision: in.Memory.Revision,
		CompressionEpoch: in.Compactions}
	return p
}

func (p *Prompt) add(text string) {
	if text != "" {
		p.ContextBlocks = append(p.ContextBlocks, block{Text: text, Stability: turnScoped})
	}
}

// Prompt returns the texts of the input of the request.
func (p Prompt) Prompt() string { return texts(p.ContextBlocks) }

// Items returns the input of the request. What is remembered is a message before the one that the turn is about: a
// record of what was said is not where something new is looked for.
func (p Prompt) Items() (items responses.Items) {
	if p.past > 0 {
		items = append(items, responses.UserMessage(texts(p.ContextBlocks[:p.past])))
	}
	return append(items, responses.UserMessage(texts(p.ContextBlocks[p.past:])))
}

// Encode returns the prompt's JSON and its digest, in hex.
func (p Prompt) Encode() (data []byte, sum string, err error) {
	if data, err = json.Marshal(p); err != nil {
		return nil, "", fmt.Errorf("encode the prompt: %w", err)
	}
	return data, digest(string(data)), nil
}

func texts(blocks []block) string {
	parts := make([]string, len(blocks))
	for i, b := range blocks {
		parts[i] = b.Text
	}
	return strings.Join(parts, "\n\n")
}

// digest hashes a list of texts; different splits of one text have different digests.
func digest(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return hex.EncodeToString(h.Sum(nil))
}
