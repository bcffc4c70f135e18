package view

import (
	"strings"

	"holon/responses/turns"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// RuntimeInfo is what a runtime knows of itself.
type RuntimeInfo struct {
	PID               int             `json:"pid"`
	Version           string          `json:"version"`
	HomeDir           string          `json:"home_dir"`
	SocketPath        string          `json:"socket_path"`
	HTTPAddr          string          `json:"http_addr,omitempty"`     // host:port; absent when no TCP port is open
	AdvertiseURL      string          `json:"advertise_url,omitempty"` // where others reach it
	StartedAt         turns.Time      `json:"started_at"`
	ConfigFingerprint string          `json:"config_fingerprint"`
	Engine            string          `json:"engine,omitempty"`
	DefaultAgent      string          `json:"default_agent"`
	DefaultModel      string          `json:"default_model"`
	FallbackModels    []string        `json:"fallback_models"`
	Ready             bool            `json:"ready"` // recovered, and turns run
	LastFailure       *ledger.Failure `json:"last_failure,omitempty"`
}

// Reachable reports whether others than those on the socket reach the runtime.
func (i RuntimeInfo) Reachable() bool { return i.AdvertiseURL != "" || i.HTTPAddr != "" }

// TriggerURL is the URL of an external trigger: a path on the socket when the runtime is not Reachable.
func (i RuntimeInfo) TriggerURL(token string) string {
	path := "/callbacks/wake/" + token
	switch {
	case i.AdvertiseURL != "":
		return strings.TrimRight(i.AdvertiseURL, "/") + path
	case i.HTTPAddr != "":
		return "http://" + i.HTTPAddr + path
	}
	return path
}

// Activity sums up what the public agents do (runtime specification, "Local Daemon Lifecycle Contract").
type Activity struct {
	State                string `json:"state"` // idle, waiting, processing
	ActiveAgentCount     int    `json:"active_agent_count"`
	ActiveTaskCount      int    `json:"active_task_count"`
	ProcessingAgentCount int    `json:"processing_agent_count"`
	WaitingAgentCount    int    `json:"waiting_agent_count"`
	QueuedMessageCount   int    `json:"queued_message_count"`
}

// RuntimeStatus answers GET /control/runtime/status.
type RuntimeStatus struct {
	OK       bool        `json:"ok"`
	Healthy  bool        `json:"healthy"`
	Runtime  RuntimeInfo `json:"runtime"`
	Activity Activity    `json:"activity"`
	// LastFailure is the newest of the runtime's and of the public agents'.
	LastFailure *ledger.Failure `json:"last_failure,omitempty"`
}

// Models are the models that agents can be set to.
type Models struct {
	DefaultModel   string              `json:"default_model"`
	FallbackModels []string            `json:"fallback_models"`
	Available      []Model             `json:"available_models"`
	Availability   []ModelAvailability `json:"model_availability"`
}

// Model is one that is known beforehand. Providers may take others as well.
type Model struct {
	Model         string `json:"model"` // provider/model
	Provider      string `json:"provider"`
	ContextWindow int64  `json:"context_window,omitempty"` // tokens
}

// ModelAvailability says whether a model can be asked here.
type ModelAvailability struct {
	Model     string `json:"model"`
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"` // why it cannot
}

// count adds an agent. One that runs or is about to is processing; one that
// waits for something in particular is waiting; one that rests is neither.
func (s *Activity) count(at agentSnapshot) {
	s.QueuedMessageCount += at.Queued
	switch at.Status() {
	case rules.Stopped:
		return
	case rules.Booting, rules.AwakeRunning:
		s.ProcessingAgentCount++
	case rules.Asleep, rules.AwaitingTaskResult:
		if at.Wait != nil && at.Wait.Kind != ledger.WaitSystem || at.waitingReason() != "" {
			s.WaitingAgentCount++
		}
	case rules.AwakeIdle:
		if at.Queued > 0 && at.RetryAt == nil && at.Blocked == "" {
			s.ProcessingAgentCount++
		} else if at.Queued > 0 {
			s.WaitingAgentCount++
		}
	}
	s.ActiveAgentCount++
}
