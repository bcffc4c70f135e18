package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holon/internal/durable"
	"holon/internal/procfs"
	"holon/runner"
	"holon/state"
	"holon/state/ledger"
)

// files are the files of a home's daemon in HOLON_HOME/run, next to its socket:
//
//	daemon.json    metadata of the one that was started last
//	daemon.log     what it and its predecessors wrote; daemon.log.1 is older
//	failure.json   why the last start or stop failed
//	daemon.lock    held while one is started or stopped
type files struct{ dir string }

func filesIn(home string) files { return files{filepath.Join(home, "run")} }

func (f files) metadata() string { return filepath.Join(f.dir, "daemon.json") }
func (f files) log() string      { return filepath.Join(f.dir, "daemon.log") }
func (f files) failure() string  { return filepath.Join(f.dir, "failure.json") }

// Bounds of the files, in bytes.
const (
	maxJSON = 64 << 10
	maxLog  = 8 << 20 // beyond it a start begins a new one
	maxTail = 1 << 20
)

// metadata names the process that was started. It is a hint: whether that process
// lives, and is the daemon, is always looked up.
type metadata struct {
	procfs.Process
	HomeDir           string    `json:"home_dir"`
	SocketPath        string    `json:"socket_path"`
	LogPath           string    `json:"log_path"`
	ConfigFingerprint string    `json:"config_fingerprint"`
	StartedAt         time.Time `json:"started_at"`
}

// The phases of failures, which are those of ledger.Failure.
const (
	phaseStartup  = "startup"
	phaseShutdown = "shutdown"
)

// readMetadata returns nil when there is none that can be read: what cannot be
// read is ignored, and replaced.
func (f files) readMetadata() *metadata {
	var m metadata
	if f.readJSON(f.metadata(), &m) != nil || m.PID <= 0 {
		return nil
	}
	return &m
}

// readFailure returns why the last start or stop failed, nil when it did not.
func (f files) readFailure() *ledger.Failure {
	var last ledger.Failure
	if f.readJSON(f.failure(), &last) != nil || last.Phase == "" {
		return nil
	}
	return &last
}

// readJSON reads a small file of ours. Keys that are missing or new are not an
// error: another version of holon may have written it.
func (f files) readJSON(path string, into any) error {
	data, err := durable.ReadFile(path, maxJSON)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func (f files) writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = durable.WriteFile(path, append(data, '\n'), 0o600)
	}
	if err != nil {
		return f.unusable(err)
	}
	return nil
}

// writeFailure records why a start or a stop failed.
func (f files) writeFailure(phase string, err error) error {
	e := runner.Describe(err)
	return f.writeJSON(f.failure(), ledger.Failure{OccurredAt: time.Now().UTC(), Phase: phase, Code: e.Code,
		Summary: e.Message, Hint: e.Hint})
}

// clearFailure removes the failure: a start or a stop succeeded after it.
func (f files) clearFailure() error { return f.remove(f.failure()) }

func (f files) remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.unusable(err)
	}
	return nil
}

// openLog opens the log for a new process, and returns where what it writes begins.
func (f files) openLog() (log *os.File, from int64, err error) {
	if info, err := os.Lstat(f.log()); err == nil && info.Mode().IsRegular() && info.Size() > maxLog {
		if err := os.Rename(f.log(), f.log()+".1"); err != nil {
			return nil, 0, f.unusable(err)
		}
	}
	log, err = os.OpenFile(f.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, 0, f.unusable(err)
	}
	info, err := log.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("the log is not a file")
	}
	if err == nil {
		err = log.Chmod(0o600)
	}
	if err != nil {
		return nil, 0, f.unusable(errors.Join(err, log.Close()))
	}
	return log, info.Size(), nil
}

// read returns at most maxTail bytes of the log from where begin puts the beginning, by its size. Without a log there
// is nothing, at 0.
func (f files) read(begin func(size int64) int64) (data []byte, at int64, err error) {
	file, err := durable.Open(f.log())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, f.unusable(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil {
		at = begin(info.Size())
		data, err = io.ReadAll(io.NewSectionReader(file, at, maxTail))
	}
	if err != nil {
		return nil, 0, f.unusable(err)
	}
	return data, at, nil
}

// tail returns the last lines of the log, so many at most, that begin at or
// after from, and where the log ends. Without a log there are none.
func (f files) tail(most int, from int64) (lines []string, end int64, err error) {
	data, at, err := f.read(func(size int64) int64 { return max(from, size-maxTail) })
	if err != nil || len(data) == 0 {
		return nil, at, err
	}
	lines = strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if at > from {
		lines = lines[1:] // which may have lost its beginning
	}
	return lines[max(0, len(lines)-most):], at + int64(len(data)), nil
}

func (f files) unusable(err error) error {
	return &state.Error{Code: codeUnusable, Param: "HOLON_HOME",
		Message: fmt.Sprintf("the files of the daemon in %.200q cannot be used", f.dir),
		Hint:    "look at the directory's permissions", Err: err}
}
