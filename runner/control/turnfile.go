package control

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// maxTurnFile bounds a file that is answered, in bytes: known secrets are taken out of the whole of it.
const maxTurnFile = 16 << 20

// getTurnFile is GET /agents/{id}/turns/{turn_id}/files/{path}: a file that a turn left, or ranges of it. What a
// container wrote is never shown as a page.
func (s *Server) getTurnFile(w http.ResponseWriter, r *http.Request) {
	release, err := s.limit.enter(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer release()
	f, err := s.openTurnFile(r)
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
			Hint:    "read it in the home of the agent"}
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
	http.ServeContent(w, r, "", info.ModTime(), bytes.NewReader(s.opts.Hide(data)))
}

// openTurnFile opens the file that a request names.
func (s *Server) openTurnFile(r *http.Request) (*os.File, error) {
	id, turn, name := s.agentID(r), pathValue(r, "turn_id"), pathValue(r, "*")
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
