package agentd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"holon/agentd/tools"
	"holon/responses"
	"holon/responses/stream"
	"holon/responses/tasks"
	"holon/responses/turns"
)

// Bounds of the task routes.
const (
	listedTasks     = 100 // tasks in a list, when the request does not say
	maxListedTasks  = 1000
	maxOutputWait   = time.Hour
	defaultTaskWait = 30 * time.Second
	maxTaskBody     = 1 << 20
)

// getTasks lists the tasks of all sessions, or of the one that is named.
func (s *Server) getTasks(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, err := number(query, "limit", listedTasks, 1, maxListedTasks)
	if err == nil && query.Get("session_id") != "" {
		err = responses.CheckID("session_id", query.Get("session_id"))
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	s.writeJSON(w, http.StatusOK, s.parts.Tasks.List(query.Get("session_id"), limit))
}

func (s *Server) getTask(w http.ResponseWriter, r *http.Request) {
	snapshot, err := s.parts.Tasks.Get("", chi.URLParam(r, "id"))
	s.answer(w, tasks.StatusResult{Task: snapshot}, err)
}

// postTask starts a command of the operator as a task, once for its id.
func (s *Server) postTask(w http.ResponseWriter, r *http.Request) {
	var in tasks.Start
	err := s.readObject(w, r, maxTaskBody, &in)
	if err == nil {
		err = responses.CheckID("session_id", in.SessionID)
	}
	if err == nil {
		err = responses.CheckID("task_id", in.TaskID)
	}
	if err == nil && !strings.HasPrefix(in.TaskID, tasks.Prefix) {
		err = responses.Invalid("task_id", responses.CodeInvalidValue, "the id of a task begins with "+tasks.Prefix)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	snapshot, err := s.startTask(in)
	s.answer(w, tasks.StatusResult{Task: snapshot}, err)
}

func (s *Server) startTask(in tasks.Start) (tasks.Snapshot, error) {
	tree, err := s.cfg.StartDir(), error(nil)
	if in.WorkspaceDir != "" {
		s.parts.Users.Do(func() { tree, err = s.treeAt("workspace_dir", in.WorkspaceDir) })
	}
	if err != nil {
		return tasks.Snapshot{}, err
	}
	s.starting.Lock()
	defer s.starting.Unlock()
	dir := filepath.Join(s.outputRoot, taskDir)
	if err := os.MkdirAll(dir, s.parts.Users.Shared(0o775)); err != nil {
		return tasks.Snapshot{}, responses.Internal("the directory of the task's output cannot be made", err)
	}
	return s.parts.Commands.StartTask(tools.Env{SessionID: in.SessionID, WorkDir: tree, LogDir: dir,
		Environ: append(slices.Clone(s.parts.Environ), "HOLON_SESSION_ID="+in.SessionID), Users: s.parts.Users,
		Secrets: s.parts.Secrets, Disk: s.logs.turn(s.cfg.Commands.TurnLogBytes)}, in)
}

// taskDir, below the output directory, has the output of tasks that no turn started, in a directory for each.
const taskDir = "tasks"

// followTasks streams tasks.Report as lines of JSON: every task as it is, and then each that changes, until the reader
// leaves or the server ends.
func (s *Server) followTasks(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", stream.TypeNDJSON)
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return
	}
	out := newWriter(w, s.waits)
	_ = s.parts.Tasks.Follow(r.Context(), func(report tasks.Report) error { // the reader is gone
		data, err := json.Marshal(report)
		if err != nil {
			return err
		}
		return out.send(append(s.parts.Secrets.JSON(data, turns.Structure), '\n'), true)
	})
}

// getTaskOutput shows what a task has printed; with block=true it first waits
// for its end, timeout_ms at most.
func (s *Server) getTaskOutput(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	block, err := boolean(query, "block")
	wait, errWait := number(query, "timeout_ms", int(defaultTaskWait.Milliseconds()), 1,
		int(maxOutputWait.Milliseconds()))
	tokens, errTokens := number(query, "max_output_tokens", s.cfg.Tools.OutputTokens, 1, s.cfg.Tools.MaxOutputTokens)
	if err = errors.Join(err, errWait, errTokens); err != nil {
		s.fail(w, err)
		return
	}
	var patience time.Duration
	if block {
		patience = time.Duration(wait) * time.Millisecond
	}
	out, err := s.parts.Tasks.Output(r.Context(), "", chi.URLParam(r, "id"), patience, tokens*tools.BytesPerToken)
	if r.Context().Err() == nil { // otherwise the client is gone
		s.answer(w, out, err)
	}
}

func (s *Server) postTaskInput(w http.ResponseWriter, r *http.Request) {
	var in tasks.Input
	if err := s.readObject(w, r, maxTaskBody, &in); err != nil {
		s.fail(w, err)
		return
	}
	res, err := s.parts.Tasks.Input(r.Context(), "", chi.URLParam(r, "id"), in)
	if r.Context().Err() == nil {
		s.answer(w, res, err)
	}
}

// postTaskStop ends a task. The body is optional.
func (s *Server) postTaskStop(w http.ResponseWriter, r *http.Request) {
	var stop tasks.Stop
	if err := s.readObject(w, r, maxTaskBody, &stop); err != nil {
		s.fail(w, err)
		return
	}
	res, err := s.parts.Tasks.Stop(r.Context(), "", chi.URLParam(r, "id"), stop.Force)
	s.answer(w, res, err)
}

// readObject reads a JSON object of at most limit bytes into v; no body is an empty
// object.
func (s *Server) readObject(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	body, err := s.readBounded(w, r, limit)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	return responses.DecodeStrict(body, v)
}

// number reads a bounded number of a query.
func number(query url.Values, name string, def, low, high int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, responses.Invalid(name, responses.CodeInvalidValue,
			fmt.Sprintf("%s must be a number from %d to %d", name, low, high))
	}
	return n, nil
}

func boolean(query url.Values, name string) (bool, error) {
	text := query.Get(name)
	if text == "" {
		return false, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, responses.Invalid(name, responses.CodeInvalidValue, name+" must be true or false")
	}
	return v, nil
}
