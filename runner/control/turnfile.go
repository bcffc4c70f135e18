package control

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"holon/internal/httpserver"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// maxTurnFile bounds a file that is answered, in bytes: known secrets are taken out of the whole of it.
const maxTurnFile = 16 << 20

// getTurnFile is GET /agents/{id}/turns/{turn_id}/files/{path}: a file that a turn left, or ranges of it.
func (s *Server) getTurnFile(w http.ResponseWriter, r *http.Request) {
	s.sendFile(w, r, s.openTurnFile, "read it in the home of the agent")
}

// getRunFile is GET /runs/{run_id}/files/{path}: a file that the record of a run names, or ranges of it.
func (s *Server) getRunFile(w http.ResponseWriter, r *http.Request) {
	s.sendFile(w, r, s.openRunFile, "holon show RUN says where it is")
}

// sendFile answers with a file, or ranges of it. What a container wrote is never shown as a page. A hint says where
// else a file is that is too large.
func (s *Server) sendFile(w http.ResponseWriter, r *http.Request, open func(*http.Request) (*os.File, error),
	hint string) {
	release, err := s.limit.enter(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer release()
	f, err := open(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	var data []byte
	if err == nil && info.Size() > maxTurnFile {
		err = &state.Error{Code: wire.CodeTooLarge, Param: "path",
			Message: fmt.Sprintf("the file has %d bytes, more than the %d that are answered", info.Size(), maxTurnFile),
			Hint:    hint}
	} else if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, info.Size()))
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	s.mayTake(w, s.limits.Body)
	answer := &ranged{ResponseWriter: w}
	http.ServeContent(answer, r, "", info.ModTime(), bytes.NewReader(s.opts.Hide(data)))
	if answer.none {
		h.Del("Content-Type")
		h.Del("Content-Disposition")
		s.fail(w, r, &state.Error{Code: wire.CodeRange, Param: "Range", Message: "the file has no such range",
			Hint: "ask for bytes within the size that Content-Range has"})
	}
}

// ranged is an answer with ranges of a file. none: there is no such range, and nothing is answered yet.
type ranged struct {
	http.ResponseWriter
	none bool
}

func (a *ranged) WriteHeader(status int) {
	if a.none = status == http.StatusRequestedRangeNotSatisfiable; !a.none {
		a.ResponseWriter.WriteHeader(status)
	}
}

func (a *ranged) Write(data []byte) (int, error) {
	if a.none {
		return len(data), nil
	}
	return a.ResponseWriter.Write(data)
}

// openTurnFile opens the file that a request names.
func (s *Server) openTurnFile(r *http.Request) (*os.File, error) {
	id, turn, name := s.agentID(r), httpserver.PathValue(r, "turn_id"), httpserver.PathValue(r, "*")
	if err := s.store.View(r.Context(), func(v ledger.View) error { _, err := v.Agent(id); return err }); err != nil {
		return nil, err
	}
	missing := &state.Error{Code: ledger.CodeNotFound, Param: "path", Message: "the turn has no such file",
		Hint: "events and turn.json name the files of a turn; old turns are removed"}
	if s.opts.OpenTurnFile == nil || turn == "." || turn == ".." || strings.ContainsAny(turn, "/\\\x00") {
		return nil, missing
	}
	f, err := s.opts.OpenTurnFile(id, turn, name)
	if err != nil {
		missing.Err = err
		return nil, missing
	}
	return f, nil
}

// openRunFile opens the file of a run that a request names.
func (s *Server) openRunFile(r *http.Request) (*os.File, error) {
	id, name := httpserver.PathValue(r, "run_id"), httpserver.PathValue(r, "*")
	err := fs.ErrNotExist
	if s.opts.OpenRunFile != nil {
		var f *os.File
		if f, err = s.opts.OpenRunFile(r.Context(), id, name); err == nil {
			return f, nil
		}
	}
	if e, ok := errors.AsType[*state.Error](err); ok {
		return nil, &state.Error{Code: ledger.CodeNotFound, Param: "run_id", Message: e.Message, Hint: "holon ps lists runs",
			Err: e}
	}
	return nil, &state.Error{Code: ledger.CodeNotFound, Param: "path", Message: "the run has no such file", Err: err,
		Hint: "manifest.json names the files of a run under artifacts, once it has ended"}
}
