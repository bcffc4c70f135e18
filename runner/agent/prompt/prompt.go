// Package prompt makes what an agent is told in a turn: who it is, how it lives,
// why it woke, and the message with where it came from.
//
// A Frame is made of blocks that say how long they stay true. What is stable and
// what belongs to the agent becomes the instructions of the request, byte for byte
// the same as long as nothing of it changed, so that agentd tells a model only of
// changes; what belongs to the turn becomes its input. agentd itself adds its
// policy, the AGENTS.md files, skills and tools, so they are not repeated here.
//
// The invariant: nothing that a message says can pass for what the frame says of
// it. Its text stands between two lines that contain a digest of that very text.
// A Frame is a value without clock or disk: the same input makes the same frame.
package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// Stability says how long a block stays as it is.
type Stability string

const (
	Stable      Stability = "stable"
	AgentScoped Stability = "agent_scoped"
	TurnScoped  Stability = "turn_scoped"
)

// Block is one part of a frame (runtime specification, "Provider Prompt Frame").
type Block struct {
	Text       string    `json:"text"`
	Stability  Stability `json:"stability"`
	Breakpoint bool      `json:"cache_breakpoint"`
}

// Cache is the identity of a frame for providers that keep prefixes.
type Cache struct {
	AgentID               string `json:"agent_id"`
	PromptCacheKey        string `json:"prompt_cache_key"`    // of the agent and what is not of the turn
	ContextFingerprint    string `json:"context_fingerprint"` // of all
	WorkingMemoryRevision int64  `json:"working_memory_revision"`
	CompressionEpoch      int64  `json:"compression_epoch"`
}

// Prompt is what is sent with a turn, and recorded with it.
type Prompt struct {
	SystemPrompt  string  `json:"system_prompt"` // the texts of SystemBlocks
	SystemBlocks  []Block `json:"system_blocks"`
	ContextBlocks []Block `json:"context_blocks"`
	Cache         Cache   `json:"cache"`
}

// Input is what a frame is made of.
type Input struct {
	Agent        ledger.Agent
	Message      ledger.Message
	Continuation rules.Continuation
	Wait         *ledger.Wait // that the message ended; nil: none
	Readmitted   bool         // a turn of this message was interrupted before
	Queued       int          // messages that wait behind it
	Begins       bool         // no response is continued
	Recent       []Exchange   // the newest turns, the oldest first; told when the conversation begins anew
	Now          time.Time
}

// Exchange is an earlier turn.
type Exchange struct {
	At     time.Time
	Kind   ledger.MessageKind
	Said   string // the message
	Answer string // what the agent said last; "": nothing
	Ended  string // why it was cut short; "": it was not
}

// Assemble makes the frame.
func Assemble(in Input) Prompt {
	f := Prompt{SystemBlocks: []Block{
		{Text: living, Stability: Stable},
		{Text: identity(in.Agent), Stability: AgentScoped, Breakpoint: true},
	}}
	if in.Begins {
		f.add(recent(in.Recent))
	}
	f.add(situation(in))
	f.add(labelled(in.Message))
	f.SystemPrompt = texts(f.SystemBlocks)
	f.Cache = Cache{AgentID: in.Agent.ID, PromptCacheKey: "agent-" + in.Agent.ID + "-" + digest(f.SystemPrompt)[:16],
		ContextFingerprint: digest(f.SystemPrompt, f.Prompt())}
	return f
}

func (f *Prompt) add(text string) {
	if text != "" {
		f.ContextBlocks = append(f.ContextBlocks, Block{Text: text, Stability: TurnScoped})
	}
}

// Instructions are those of the request.
func (f Prompt) Instructions() string { return f.SystemPrompt }

// Prompt is the input of the request.
func (f Prompt) Prompt() string { return texts(f.ContextBlocks) }

// Encode returns the frame's JSON and a digest of it, in hex.
func (f Prompt) Encode() (data []byte, sum string, err error) {
	if data, err = json.Marshal(f); err != nil {
		return nil, "", fmt.Errorf("encode the frame: %w", err)
	}
	return data, digest(string(data)), nil
}

func texts(blocks []Block) string {
	parts := make([]string, len(blocks))
	for i, b := range blocks {
		parts[i] = b.Text
	}
	return strings.Join(parts, "\n\n")
}

// digest tells lists of texts apart, however they are cut.
func digest(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return hex.EncodeToString(h.Sum(nil))
}
