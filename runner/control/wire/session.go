package wire

import (
	"holon/responses/turns"
	"holon/state"
)

// Session is a session of a client: a container with its own files behind a conversation.
type Session struct {
	ID          string       `json:"id"`
	Name        string       `json:"name"`     // that its client gave it; "": none
	Owner       string       `json:"owner"`    // the name of the client's token
	Status      string       `json:"status"`   // open, closed
	Activity    string       `json:"activity"` // waiting, running, idle, paused, stopped
	Model       string       `json:"model"`
	Workspace   string       `json:"workspace"` // the directory that its files are a copy of; "": none
	CreatedAt   turns.Time   `json:"created_at"`
	LastUsedAt  turns.Time   `json:"last_used_at"`
	ClosedAt    turns.Time   `json:"closed_at"` // null while it is open
	ResponseIDs []string     `json:"response_ids"`
	Current     string       `json:"current"`      // response that the next turn continues; "": it begins a conversation
	Rewound     bool         `json:"rewound"`      // the session went back, and no turn has begun since
	TreeLostAt  turns.Time   `json:"tree_lost_at"` // its files stayed on another host; null: never
	Usage       SessionUsage `json:"usage"`
}

// SessionUsage is what the turns of a session took.
type SessionUsage struct {
	Turns  int          `json:"turns"`
	Tokens int64        `json:"tokens"`
	Cost   state.Amount `json:"cost_micros"`
}

// SessionList answers GET /sessions.
type SessionList struct {
	Object string    `json:"object"` // list
	Data   []Session `json:"data"`
}

// StartSession opens a session.
type StartSession struct {
	Name      string `json:"name,omitempty"`      // of the caller's own
	Model     string `json:"model,omitempty"`     // provider/name; "": the runtime's
	Workspace string `json:"workspace,omitempty"` // an absolute path below an allowed root; "": no files
	Image     string `json:"image,omitempty"`     // "": the runtime's
}

// SessionDiff is what was changed in a session since it was made or applied last.
type SessionDiff struct {
	SessionID string     `json:"session_id"`
	Changes   state.Diff `json:"changes"`              // operators alone see where its files are
	PatchText string     `json:"patch_text,omitempty"` // for a person, the beginning, as far as it was asked for
}

// ApplySession brings what was changed into the operator's files.
type ApplySession struct {
	AllowExecuted bool     `json:"allow_executed,omitempty"` // also files that programs execute unasked; for operators
	ResultTrees   []string `json:"result_trees,omitempty"`   // of the diff that was read; another change is refused
}

// SessionApplied answers ApplySession.
type SessionApplied struct {
	SessionID string          `json:"session_id"`
	Path      string          `json:"path"` // top of the operator's working tree
	Written   []string        `json:"written"`
	Deleted   []string        `json:"deleted"`
	Warnings  []state.Warning `json:"warnings,omitempty"` // of what the change leaves out
}

// CheckoutSession makes a branch of what was changed.
type CheckoutSession struct {
	Branch        string `json:"branch,omitempty"`
	Path          string `json:"path,omitempty"`           // of its working tree, absolute
	AllowExecuted bool   `json:"allow_executed,omitempty"` // also files that programs execute unasked; for operators
}

// SessionCheckout answers CheckoutSession.
type SessionCheckout struct {
	SessionID string `json:"session_id"`
	Branch    string `json:"branch"`
	Base      string `json:"base_commit"`
	Commit    string `json:"commit"`
	Commits   int    `json:"commits"`  // above the base
	Worktree  string `json:"worktree"` // its working tree

	Warnings []state.Warning `json:"warnings,omitempty"` // of what the change leaves out
}

// SessionTurn is a turn of a session.
type SessionTurn struct {
	TurnID             string     `json:"turn_id"`
	ResponseID         string     `json:"response_id"`
	PreviousResponseID string     `json:"previous_response_id"` // "": it began a conversation
	CreatedAt          turns.Time `json:"created_at"`
	Status             string     `json:"status"`        // of the response
	InputPreview       string     `json:"input_preview"` // the beginning of what was asked, in one line; "": not known
	TextPreview        string     `json:"text_preview"`  // and of the answer
	TreeKept           bool       `json:"tree_kept"`     // the files can become what they were right after it
	Current            bool       `json:"current"`       // the next turn continues it
}

// SessionTurnList answers GET /sessions/{id}/turns: the newest 1,000, in the order in which they began.
type SessionTurnList struct {
	Object string        `json:"object"` // list
	Data   []SessionTurn `json:"data"`
}

// RewindSession goes back to what a session was right after a response.
type RewindSession struct {
	ResponseID       string `json:"response_id,omitempty"`       // "": the beginning
	ConversationOnly bool   `json:"conversation_only,omitempty"` // the files stay as they are
}

// SessionRewound answers RewindSession.
type SessionRewound struct {
	SessionID    string          `json:"session_id"`
	ResponseID   string          `json:"response_id"` // that the next turn continues
	TreeRestored bool            `json:"tree_restored"`
	Warnings     []state.Warning `json:"warnings,omitempty"` // of files that stayed as they are
}
