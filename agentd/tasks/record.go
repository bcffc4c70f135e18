package tasks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"holon/agentd/preview"
	"holon/agentd/process"
	"holon/internal/durable"
	"holon/internal/redact"
	"holon/internal/visible"
	"holon/responses"
	wire "holon/responses/tasks"
	"holon/responses/turns"
)

const (
	recordVersion = 1
	recordSuffix  = ".json"
	maxRecord     = 256 << 10 // of a record file
	maxCmd        = 32 << 10  // of a command line in a record; the digest is of all of it
	maxExcerpt    = 4 << 10
	maxPreview    = 200
)

// record is a task on disk: what others see of it, and what only this package needs. Its Command is never changed, but
// replaced.
type record struct {
	Version int `json:"version"`
	wire.Snapshot
	ThreadID  string `json:"thread_id,omitempty"` // its facts have the beginning of the task
	Seen      bool   `json:"seen,omitempty"`      // a model of the session has seen that it has ended
	Elsewhere bool   `json:"elsewhere,omitempty"` // a thread that does not have its beginning has its end
	Recorded  bool   `json:"recorded,omitempty"`  // the facts of the one that has it say so
	Reported  bool   `json:"reported"`            // the one that has it has its end, and its facts say so
	Stdout    stream `json:"stdout"`              // of a task that has ended
	Stderr    stream `json:"stderr"`
}

// direct reports whether the operator started the task, and no turn.
func (r *record) direct() bool { return !r.Command.PromotedFromExecCommand }

// stream is what is kept of the output of an ended task. The excerpt is for the
// day on which the file is gone.
type stream struct {
	Total   int64  `json:"total"`
	Lines   int64  `json:"lines"`
	Logged  int64  `json:"logged"`
	Excerpt string `json:"excerpt,omitempty"`

	OverBudget bool `json:"over_budget,omitempty"` // the file ends early because of the turn's bound
}

func (s stream) sane() bool { return 0 <= s.Logged && s.Logged <= s.Total && s.Lines >= 0 }

// Digest is the comparable form of a command's identity.
func Digest(c wire.Command) string {
	id, err := json.Marshal([]any{c.Cmd, c.Workdir, c.Shell, c.Login, c.TTY})
	if err != nil { // strings and booleans only
		panic(fmt.Sprintf("encode a command's identity: %v", err))
	}
	sum := sha256.Sum256(id)
	return hex.EncodeToString(sum[:])
}

// clip returns valid UTF-8 of at most about limit bytes.
func clip(s string, limit int) string { return visible.Clip(strings.ToValidUTF8(s, "\ufffd"), limit) }

// finish makes the record terminal.
func (r *record) finish(res process.Result, now turns.Time, closing bool) {
	c := *r.Command
	c.ExitStatus, c.Signal, c.DurationMS = &res.ExitCode, int(res.Signal), res.Duration.Milliseconds()
	r.Stdout, r.Stderr = streamOf(res.Stdout), streamOf(res.Stderr)
	how := fmt.Sprintf("exited with status %d", res.ExitCode)
	if res.Signal != 0 {
		how = fmt.Sprintf("was killed by signal %d (%s)", int(res.Signal), unix.SignalName(res.Signal))
	}
	r.Status, r.UpdatedAt = wire.Failed, now
	switch {
	case closing && (res.Stopped || res.Canceled), res.Canceled:
		r.Status, r.Failure, r.Summary = wire.Cancelled, "shutdown", "command was ended with the runtime and "+how
	case res.Stopped:
		r.Status, r.Failure, r.Summary = wire.Cancelled, "stopped", "command was stopped and "+how
	case res.TimedOut:
		r.Failure, r.Summary = "time_limit", "command was ended at its time limit and "+how
	case res.Signal != 0:
		r.Failure, r.Summary = "signal", "command "+how
	case res.ExitCode != 0:
		r.Failure, r.Summary = "nonzero_exit", "command "+how
	default:
		r.Status, r.Summary = wire.Completed, "command "+how
	}
	if res.Survivors > 0 {
		r.Summary += fmt.Sprintf("; %d process(es) could not be ended", res.Survivors)
	}
	c.ResultSummary = r.Summary
	r.Command = &c
}

func streamOf(c process.Capture) stream {
	s := stream{Total: c.Total, Lines: c.Lines, Logged: c.Logged, OverBudget: c.OverBudget}
	if text, _ := preview.Of(c).Cut(maxExcerpt); text != nil {
		s.Excerpt = *text
	}
	return s
}

// interrupt makes the record of a lost task terminal.
func (r *record) interrupt(now turns.Time) {
	c := *r.Command
	c.ResultSummary = "the task is lost: the runtime that watched it ended, and how the command ended is unknown"
	r.Status, r.UpdatedAt, r.Failure, r.Summary, r.Command = wire.Failed, now, wire.FailureLost, c.ResultSummary, &c
}

// store is the directory of the records.
type store struct {
	dir     string
	secrets *redact.Set
}

func (s store) path(id string) string { return filepath.Join(s.dir, id+recordSuffix) }

func (s store) write(r record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the record of %s: %w", r.TaskID, err)
	}
	data = append(s.secrets.JSON(data, turns.Structure), '\n')
	err = durable.WriteFile(s.path(r.TaskID), data, durable.Private)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The first task of all.
	if err := os.MkdirAll(s.dir, 0o770); err != nil {
		return err
	}
	if err := durable.SyncDir(filepath.Dir(s.dir)); err != nil {
		return err
	}
	return durable.WriteFile(s.path(r.TaskID), data, durable.Private)
}

func (s store) remove(id string) error {
	if err := os.Remove(s.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// load reads every record. A file that is not a valid record is reported and left alone.
func (s store) load() (list []record, broken []error, err error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), recordSuffix)
		if !ok || strings.HasPrefix(id, durable.TempPrefix) {
			continue
		}
		data, err := durable.ReadFile(s.path(id), maxRecord)
		var r record
		if err == nil {
			r, err = decodeRecord(data, id)
		}
		if err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", e.Name(), err))
			continue
		}
		list = append(list, r)
	}
	if err := durable.Sweep(s.dir); err != nil { // writes that a crash cut off
		broken = append(broken, err)
	}
	return list, broken, nil
}

// decodeRecord reads the record of the task id. Commands can write to the directory, so nothing in it is trusted.
func decodeRecord(data []byte, id string) (record, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, err
	}
	if err := responses.CheckID("task_id", id); err != nil {
		return record{}, err
	}
	if r.TaskID != id || !strings.HasPrefix(id, wire.Prefix) {
		return record{}, fmt.Errorf("the record is of the task %.80q", r.TaskID)
	}
	if err := r.check(); err != nil {
		return record{}, err
	}
	r.Command.CmdPreview, r.Command.InputTarget = Preview(r.Command.Cmd), ""
	return r, nil
}

func (r *record) check() error {
	switch {
	case r.Version != recordVersion:
		return fmt.Errorf("version %d is not %d", r.Version, recordVersion)
	case r.CreatedAt.IsZero() || r.UpdatedAt.IsZero():
		return errors.New("the times are missing")
	case r.Status != wire.Running && r.Status != wire.Cancelling && !r.Status.Terminal():
		return fmt.Errorf("the status %.40q is unknown", r.Status)
	case r.Command == nil:
		return errors.New("the command is missing")
	case !r.Stdout.sane() || !r.Stderr.sane():
		return errors.New("the size of the output makes no sense")
	}
	for _, path := range []string{r.Command.OutputPath, r.Command.StderrPath} {
		if path != "" && !filepath.IsAbs(path) {
			return errors.New("the path of an output file is not absolute")
		}
	}
	return nil
}
