package acp

import "encoding/json"

// protocolVersion is the version of the Agent Client Protocol that is spoken.
const protocolVersion = 1

// What an editor sends.
type (
	newSession struct {
		Cwd        string            `json:"cwd"`
		MCPServers []json.RawMessage `json:"mcpServers"`
	}
	loadSession struct {
		SessionID string `json:"sessionId"`
		newSession
	}
	setMode struct {
		SessionID string `json:"sessionId"`
		ModeID    Mode   `json:"modeId"`
	}
	promptRequest struct {
		SessionID string  `json:"sessionId"`
		Prompt    []block `json:"prompt"`
	}
	cancelled struct {
		SessionID string `json:"sessionId"`
	}
	permission struct {
		Outcome struct {
			Outcome  string `json:"outcome"` // selected or cancelled
			OptionID string `json:"optionId"`
		} `json:"outcome"`
	}
)

// block is a part of a prompt, and of what is shown.
type block struct {
	Type     string    `json:"type"` // text, image, resource_link or resource
	Text     string    `json:"text,omitempty"`
	Data     string    `json:"data,omitempty"` // base64
	MimeType string    `json:"mimeType,omitempty"`
	URI      string    `json:"uri,omitempty"`
	Name     string    `json:"name,omitempty"`
	Resource *resource `json:"resource,omitempty"`
}

type resource struct {
	URI      string  `json:"uri"`
	MimeType string  `json:"mimeType,omitempty"`
	Text     *string `json:"text,omitempty"` // nil: it has Blob
	Blob     string  `json:"blob,omitempty"` // base64
}

// What an editor is sent.
type (
	initialized struct {
		ProtocolVersion   int          `json:"protocolVersion"`
		AgentCapabilities capabilities `json:"agentCapabilities"`
		AgentInfo         info         `json:"agentInfo"`
		AuthMethods       []struct{}   `json:"authMethods"`
	}
	capabilities struct {
		LoadSession bool `json:"loadSession"`
		Prompt      struct {
			Image           bool `json:"image"`
			EmbeddedContext bool `json:"embeddedContext"`
		} `json:"promptCapabilities"`
	}
	info struct {
		Name    string `json:"name"`
		Title   string `json:"title"`
		Version string `json:"version"`
	}
	opened struct {
		SessionID string `json:"sessionId,omitempty"` // "" when it was loaded
		Modes     modes  `json:"modes"`
	}
	modes struct {
		Current   Mode       `json:"currentModeId"`
		Available []modeInfo `json:"availableModes"`
	}
	modeInfo struct {
		ID          Mode   `json:"id"`
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	stopped struct {
		StopReason string `json:"stopReason"`
	}
	sessionUpdate struct {
		SessionID string `json:"sessionId"`
		Update    update `json:"update"`
	}
	askPermission struct {
		SessionID string   `json:"sessionId"`
		ToolCall  update   `json:"toolCall"`
		Options   []option `json:"options"`
	}
	option struct {
		ID   string `json:"optionId"`
		Name string `json:"name"`
		Kind string `json:"kind"`
	}
)

// update is what happens in a session. Which keys it has follows from its kind.
type update struct {
	Kind    string `json:"sessionUpdate,omitempty"`
	Content any    `json:"content,omitempty"` // block of a chunk, []toolContent of a tool call

	// of a tool call
	ToolCallID string          `json:"toolCallId,omitempty"`
	Title      string          `json:"title,omitempty"`
	ToolKind   string          `json:"kind,omitempty"`
	Status     string          `json:"status,omitempty"`
	Locations  []location      `json:"locations,omitempty"`
	RawInput   json.RawMessage `json:"rawInput,omitempty"`
	RawOutput  json.RawMessage `json:"rawOutput,omitempty"`

	Entries []planEntry `json:"entries,omitempty"`       // of a plan
	Mode    Mode        `json:"currentModeId,omitempty"` // of a change of mode
}

// Kinds of updates.
const (
	updateUser     = "user_message_chunk"
	updateMessage  = "agent_message_chunk"
	updateThought  = "agent_thought_chunk"
	updateToolCall = "tool_call"
	updateToolDone = "tool_call_update"
	updatePlan     = "plan"
	updateMode     = "current_mode_update"
)

// States of a tool call.
const (
	statusPending    = "pending"
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusFailed     = "failed"
)

// toolContent is text, or a change of a file.
type toolContent struct {
	Type    string `json:"type"` // content or diff
	Content *block `json:"content,omitempty"`
	*fileDiff
}

// fileDiff is a change of one place of a file.
type fileDiff struct {
	Path string  `json:"path"`    // absolute
	Old  *string `json:"oldText"` // nil: the file is new
	New  string  `json:"newText"`
}

type location struct {
	Path string `json:"path"` // absolute
	Line int    `json:"line,omitempty"`
}

type planEntry struct {
	Content  string `json:"content"`
	Priority string `json:"priority"`
	Status   string `json:"status"`
}

func textBlock(text string) block { return block{Type: "text", Text: text} }

func textContent(text string) toolContent {
	b := textBlock(text)
	return toolContent{Type: "content", Content: &b}
}
