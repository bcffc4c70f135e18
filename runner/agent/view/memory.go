package view

import "holon/responses/turns"

// Bounds of searches of memory, in results and in characters.
const (
	DefaultMemories    = 10
	MaxMemories        = 50
	DefaultMemoryChars = 12_000
	MaxMemoryChars     = 50_000
)

// Values of MemoryOrigin.ScopeKind.
const (
	MemoryScopeAgent     = "agent"
	MemoryScopeWorkspace = "workspace"
)

// MemoryFiles are the Markdown files that an agent and its operator keep as memory, within its home. No other file is
// searched.
func MemoryFiles() []string { return []string{"memory/self.md", "memory/operator.md"} }

// MemoryQuery says what of an agent's memory is searched for.
type MemoryQuery struct {
	Text          string
	Limit         int // 0: DefaultMemories
	AllWorkspaces bool
}

// MemoryOrigin says what a memory is and where it comes from (runtime specification, "Memory Search Index").
type MemoryOrigin struct {
	Kind        string            `json:"kind"`
	SourceRef   string            `json:"source_ref"` // opaque
	ScopeKind   string            `json:"scope_kind"` // agent or workspace
	WorkspaceID string            `json:"workspace_id,omitempty"`
	AgentID     string            `json:"agent_id"`
	SourcePath  string            `json:"source_path,omitempty"` // of a file, within the agent's home
	Title       string            `json:"title"`
	UpdatedAt   turns.Time        `json:"updated_at"`
	Metadata    map[string]string `json:"metadata"`
}

// MemoryResult is a memory that a search found.
type MemoryResult struct {
	MemoryOrigin
	Snippet string  `json:"snippet"`
	Score   float64 `json:"score"` // higher is better, within one search
}

// MemoryResults is what a search found, the best first.
type MemoryResults struct {
	Results []MemoryResult `json:"results"`
}

// MemorySource is a memory with its exact text.
type MemorySource struct {
	MemoryOrigin
	Content   string `json:"content"`
	Truncated bool   `json:"truncated"` // the content is the beginning of the text
}

// MemoryRebuilt says what a new index has.
type MemoryRebuilt struct {
	AgentID string `json:"agent_id"`
	Sources int    `json:"sources"`
}
