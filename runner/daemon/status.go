package daemon

import (
	"context"

	"holon/responses/turns"
	"holon/runner/agent/view"
	"holon/state"
	"holon/state/ledger"
)

// State is whether there is a daemon.
type State string

// The states of a daemon.
const (
	Running      State = "running"
	Ended        State = "stopped"
	NotAnswering State = "not_answering" // its process lives
	Foreign      State = "foreign"       // something else is where its socket should be
)

// Status is the state of the daemon of a home (runtime specification,
// "Local Daemon Lifecycle Contract").
type Status struct {
	State             State      `json:"state"`
	PID               int        `json:"pid,omitempty"`
	HomeDir           string     `json:"home_dir"`
	SocketPath        string     `json:"socket_path"`
	HTTPAddr          string     `json:"http_addr,omitempty"`
	AdvertiseURL      string     `json:"advertise_url,omitempty"`
	Version           string     `json:"version,omitempty"`
	StartedAt         turns.Time `json:"started_at,omitzero"`
	ConfigFingerprint string     `json:"config_fingerprint,omitempty"`
	DefaultAgent      string     `json:"default_agent,omitempty"`
	DefaultModel      string     `json:"default_model,omitempty"`
	Engine            string     `json:"engine,omitempty"`

	Control control `json:"control"`
	// whether it runs with the options of the caller; absent: unknown
	ConfigMatch *bool          `json:"config_match,omitempty"`
	Activity    *view.Activity `json:"activity,omitempty"`
	// the newest, of the runtime, an agent, a start or a stop
	LastFailure *ledger.Failure `json:"last_failure,omitempty"`
	Stale       []string        `json:"stale_files,omitempty"` // that the next start or stop removes
}

// control is whether the control surface answers.
type control struct {
	Reachable bool   `json:"reachable"`
	Healthy   bool   `json:"healthy"`
	Problem   string `json:"problem,omitempty"` // why not
}

// Status looks, and changes nothing.
func (d *Daemon) Status(ctx context.Context) (Status, error) {
	seen, err := d.look(ctx)
	s := d.status(seen)
	if state.IsCode(err, codeForeign) {
		s.State, s.Control.Problem = Foreign, err.Error()
		return s, nil
	}
	return s, err
}

func (d *Daemon) status(seen sighting) Status {
	s := Status{State: Ended, HomeDir: d.opts.Home, SocketPath: d.opts.Socket, LastFailure: d.files.readFailure()}
	if seen.process == nil && seen.meta != nil {
		s.Stale = append(s.Stale, d.files.metadata())
	}
	if seen.stale {
		s.Stale = append(s.Stale, d.opts.Socket)
	}
	if seen.process == nil {
		return s
	}
	s.PID = seen.process.PID
	if seen.answer == nil {
		s.State = NotAnswering
		if seen.silent != nil {
			s.Control.Problem = seen.silent.Error()
		}
		return s
	}
	info, match := seen.answer.Runtime, seen.answer.Runtime.ConfigFingerprint == d.opts.Fingerprint
	s.State, s.Control = Running, control{Reachable: true, Healthy: seen.answer.Healthy}
	s.HTTPAddr, s.AdvertiseURL, s.Version, s.ConfigFingerprint = info.HTTPAddr, info.AdvertiseURL, info.Version,
		info.ConfigFingerprint
	s.DefaultAgent, s.DefaultModel, s.Engine = info.DefaultAgent, info.DefaultModel, info.Engine
	s.StartedAt = info.StartedAt
	if s.ConfigMatch = &match; seen.answer.Activity.State != "" { // else the ledger cannot be read
		s.Activity = &seen.answer.Activity
	}
	s.LastFailure = newer(newer(s.LastFailure, seen.answer.LastFailure), info.LastFailure)
	if f := seen.answer.LastFailure; !s.Control.Healthy && f != nil {
		s.Control.Problem = f.Summary
	}
	return s
}

func newer(a, b *ledger.Failure) *ledger.Failure {
	if a == nil || b != nil && b.OccurredAt.After(a.OccurredAt) {
		return b
	}
	return a
}

// logEnd is what a person looks at next when the daemon does not do as it should.
type logEnd struct {
	LogPath      string          `json:"log_path"`
	MetadataPath string          `json:"metadata_path"`
	FailurePath  string          `json:"failure_path"`
	Failure      *ledger.Failure `json:"failure,omitempty"` // of the last start or stop
	Lines        []string        `json:"lines"`             // the newest of the log, in order

	end int64 // of what was read of the log
}

// Logs returns the last lines of the log, at most MaxLines of them, and where
// everything is.
func (d *Daemon) Logs(lines int) (logEnd, error) {
	logs := logEnd{LogPath: d.files.log(), MetadataPath: d.files.metadata(), FailurePath: d.files.failure(),
		Failure: d.files.readFailure()}
	var err error
	logs.Lines, logs.end, err = d.files.tail(min(max(lines, 0), MaxLines), 0)
	if logs.Lines == nil {
		logs.Lines = []string{}
	}
	return logs, err
}

// MaxLines is how much of a log is shown at most.
const MaxLines = 10_000
