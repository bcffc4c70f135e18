package tasks

// StatusArgs are the arguments of TaskStatus.
type StatusArgs struct {
	TaskID string `json:"task_id"`
}

// OutputArgs are the arguments of TaskOutput.
type OutputArgs struct {
	TaskID          string `json:"task_id"`
	Block           *bool  `json:"block,omitempty"` // nil: wait
	TimeoutMS       int    `json:"timeout_ms,omitempty"`
	MaxOutputTokens int    `json:"max_output_tokens,omitempty"`
}

// Waits reports whether the call waits for the task to end.
func (a OutputArgs) Waits() bool { return a.Block == nil || *a.Block }

// InputArgs are the arguments of TaskInput.
type InputArgs struct {
	TaskID     string `json:"task_id"`
	Input      string `json:"input,omitempty"`
	CloseInput bool   `json:"close_input,omitempty"`
}

// StopArgs are the arguments of TaskStop.
type StopArgs struct {
	TaskID string `json:"task_id"`
	Force  bool   `json:"force,omitempty"`
}
