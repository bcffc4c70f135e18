package sessions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"holon/internal/durable"
	"holon/internal/procfs"
	"holon/responses"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/gateway"
	"holon/runner/service"
	"holon/state"
)

// recordSchema is the value of "schema" in every session.json.
const recordSchema = "holon.session/1"

// Record is session.json: what a session holds and which turns it was asked for, for a process that finds it after its
// holon was killed. It is written durably before the container is made and after, and before each turn, mode 0600,
// where no container sees it, and is removed when everything that it names is given up.
type Record struct {
	Schema string `json:"schema"`
	runner.Held
	Asked           // for the newest turn, or is about to be
	earlier []Asked // turns before it that may go on, with Manager.AtOnce
	Made    *Made   `json:"made,omitempty"` // of the container of an agent or a conversation, else nil
	*Run            // of a run, else nil
}

// Asked is a turn that a session was asked for.
type Asked struct {
	TurnID string            `json:"turn_id,omitempty"`
	Grant  gateway.TokenHash `json:"grant_hash,omitzero"` // by which gateway and host tools know it
}

// underWay lists the turns that may go on, the newest last.
func (r *Record) underWay() []Asked {
	if r.TurnID == "" {
		return r.earlier
	}
	return append(slices.Clone(r.earlier), r.Asked)
}

// grant is by what gateway and host tools know a turn that may go on; zero if the record does not have it.
func (r *Record) grant(turnID string) gateway.TokenHash {
	for _, a := range r.underWay() {
		if a.TurnID == turnID {
			return a.Grant
		}
	}
	return gateway.TokenHash{}
}

// Made is what a container was asked to be made from. Another value needs another container.
type Made struct {
	Image     string   `json:"image"`
	Version   string   `json:"version"`
	Providers []string `json:"providers"` // Models.Providers, with which agentd was started
}

// Run is what is needed to finish a run, in addition to what its session holds.
type Run struct {
	Owner     process         `json:"owner"`      // the holon that holds the run
	Prompt    string          `json:"prompt"`     // its beginning, for the summary
	DiskBytes int64           `json:"disk_bytes"` // quota; 0: none
	Keep      bool            `json:"keep"`
	Manifest  *state.Manifest `json:"manifest"` // as far as it was known

	Seen  *Seen  `json:"seen,omitempty"`  // how its turn ended, once the host saw that
	Check *Check `json:"check,omitempty"` // what its check is made from; nil: no other holon can make it
}

// Seen is the end of a turn that the host saw, which needs no trust in files of the container.
type Seen struct {
	ResponseID string           `json:"response_id"`
	Status     responses.Status `json:"status"`
}

// Check is what a holon that takes up a run needs to begin its check. It has no secrets.
type Check struct {
	Command   string             `json:"command"`
	Paths     *[]string          `json:"paths"` // patterns of the operator, null for those of common runners
	TimeoutMS int64              `json:"timeout_ms"`
	Base      string             `json:"base"`   // where that of the run is pinned
	Agentd    string             `json:"agentd"` // like what follows, of runner.Config
	Image     string             `json:"image"`
	InputDir  string             `json:"input_dir"`
	Env       []string           `json:"env"`
	Services  []service.Service  `json:"services"`
	Confined  runner.Confinement `json:"confined"`
}

const (
	maxRecord         = 4 << 20
	MaxRecordedPrompt = 64 << 10
)

// CodeDamaged is the code of an error about a session.json that cannot be used. Nothing of its session is removed until
// the file is: it may name what works.
const CodeDamaged = state.CodeManifestInvalid

// Record reads the record of a session; fs.ErrNotExist when it holds nothing, or held nothing yet. What a home was
// copied or moved from may have a container still, which that of the copy is not: a session has none here then. A run
// is over with its container, so its record is damaged.
func (m *Manager) Record(key Key) (*Record, error) {
	r, err := readRecord(m.Dir(key), key.kind == Runs)
	switch {
	case err != nil || r.Dir == m.SessionDir(key):
	case key.kind == Runs:
		return nil, damaged(m.Dir(key), errIncomplete)
	default:
		return nil, fmt.Errorf("the record of a session is of %s: %w", r.Dir, fs.ErrNotExist)
	}
	if err == nil && m.AtOnce {
		r.readTurns(m.Dir(key))
	}
	return r, err
}

// turnsFile has the newest turns of a session that makes several at a time; some may be over. No turn waits
// for the disk: after a power cut, which the file need not survive, no container runs.
const turnsFile = "turns.ndjson"

// readTurns reads turnsFile up to what cannot be read, such as the line that a kill cut off.
func (r *Record) readTurns(dir string) {
	data, err := durable.ReadFile(filepath.Join(dir, turnsFile), maxRecord)
	if err != nil {
		return
	}
	var list []Asked
	for line := range bytes.Lines(data) {
		var a Asked
		if json.Unmarshal(line, &a) != nil || a.TurnID == "" {
			break
		}
		list = append(list, a)
	}
	if newest := len(list) - 1; newest >= 0 {
		r.earlier, r.Asked = list[:newest], list[newest]
	}
}

// writeTurns makes turnsFile anew of the turns that may go on.
func (r *Record) writeTurns(dir string) error {
	text, err := turnLines(r.underWay()...)
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(dir, turnsFile), text)
}

// appendTurn adds the newest turn to turnsFile. After an error the file must be made anew.
func (r *Record) appendTurn(dir string) error {
	text, err := turnLines(r.Asked)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, turnsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("record a turn: %w", err)
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

func turnLines(list ...Asked) ([]byte, error) {
	var b bytes.Buffer
	for _, a := range list {
		if err := json.NewEncoder(&b).Encode(a); err != nil {
			return nil, fmt.Errorf("encode %s: %w", turnsFile, err)
		}
	}
	return b.Bytes(), nil
}

// ReadRun reads the record in the directory of a run.
func ReadRun(dir string) (*Record, error) { return readRecord(dir, true) }

var errIncomplete = errors.New("it lacks what a session cannot be taken up without")

// readRecord reads the record of a run, or of another session.
func readRecord(dir string, run bool) (*Record, error) {
	data, err := durable.ReadFile(filepath.Join(dir, state.SessionFile), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", state.SessionFile, err)
	}
	r := new(Record)
	if err == nil {
		err = json.Unmarshal(data, r)
	}
	switch {
	case err != nil:
	case r.Schema != recordSchema:
		err = fmt.Errorf("it has the schema %.64q, not %s", r.Schema, recordSchema)
	case r.ID == "" || !filepath.IsAbs(r.Dir) || !filepath.IsAbs(r.Sockets) || (r.Run != nil) != run,
		(r.Made == nil) != run,
		r.Run != nil && (r.Manifest == nil || responses.CheckID("turn_id", r.TurnID) != nil):
		err = errIncomplete
	case r.Handle != nil:
		err = engine.CheckHandle(*r.Handle, r.Engine)
	}
	if err != nil {
		return nil, damaged(dir, err)
	}
	return r, nil
}

func damaged(dir string, err error) error {
	path := filepath.Join(dir, state.SessionFile)
	return &state.Error{Code: CodeDamaged, Param: "session", Message: path + " cannot be used", Err: err,
		Hint: "correct it or use the holon that wrote it; to remove the file is to give up the session and its work"}
}

func (r *Record) write(dir string) error {
	r.Schema = recordSchema
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("encode %s: %w", state.SessionFile, err)
	}
	return durable.WriteFile(filepath.Join(dir, state.SessionFile), b.Bytes(), 0o600)
}

// RecordWhole records a run that holds nothing itself but parts, which are recorded by their own.
func (m *Manager) RecordWhole(key Key, engine string, run *Run) error {
	asked := Asked{TurnID: responses.NewID(responses.PrefixTurn)}
	r := &Record{Asked: asked, Run: run, Held: runner.Held{ID: key.id, Engine: engine, Dir: m.SessionDir(key),
		Sockets: m.Home.IPCDir(key.id)}}
	return r.write(m.Dir(key))
}

// Parts reads the records of the parts of a run that hold something. Record.ID is the id of each.
func Parts(dir string) (held []*Record, err error) {
	attempt := filepath.Join(state.AttemptsDir, "*")
	for _, part := range []string{attempt, filepath.Join(attempt, state.PartCheck), state.PartCheck, state.PartJudge} {
		paths, globErr := filepath.Glob(filepath.Join(dir, part, state.SessionFile))
		err = errors.Join(err, globErr)
		for _, path := range paths {
			r, readErr := ReadRun(filepath.Dir(path))
			if errors.Is(readErr, fs.ErrNotExist) { // given up meanwhile
				continue
			}
			if err = errors.Join(err, readErr); readErr == nil {
				held = append(held, r)
			}
		}
	}
	return held, err
}

// RemoveRecord removes the record of a session and, before it, the account and the turns that are kept next to it.
func (m *Manager) RemoveRecord(key Key) error {
	for _, name := range []string{state.UsageFile, turnsFile, state.SessionFile} {
		if err := os.Remove(filepath.Join(m.Dir(key), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}

// CodeStillRunning is the code of an error about a run that did not stop in time.
const CodeStillRunning state.Code = "still_running"

// process is a procfs.Process as it stands in session.json.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in clock ticks since boot
	Boot  string `json:"boot"`
}

// ThisProcess identifies this process. Without /proc the result matches no
// process.
func ThisProcess() process {
	p, err := procfs.Identify(os.Getpid())
	if err != nil {
		return process{PID: os.Getpid()}
	}
	return process(p)
}

// Signal sends sig to the process, unless it has ended: the lease of its run
// shows that.
func (p process) Signal(sig os.Signal) error {
	err := procfs.Process(p).Signal(sig)
	switch {
	case errors.Is(err, os.ErrProcessDone):
		return nil
	case errors.Is(err, procfs.ErrOther):
		return &state.Error{Code: CodeStillRunning, Param: "run",
			Message: fmt.Sprintf("the run is held by a process that cannot be seen from here (%d)", p.PID),
			Hint:    "stop it where it was started"}
	}
	return err
}
