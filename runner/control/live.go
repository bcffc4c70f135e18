package control

import (
	"encoding/json"
	"net/http"
	"time"

	"holon/responses/stream"
	"holon/runner/control/wire"
	"holon/state/ledger"
)

// getLive is GET …/live: the message that an agent writes, as it grows. A reader that is slow gets larger pieces, and
// not every message; what was said is in the events.
func (s *Server) getLive(w http.ResponseWriter, r *http.Request) {
	id := s.agentID(r)
	q, err := queryOf(r, "message_id")
	if err == nil {
		err = s.store.View(r.Context(), func(v ledger.View) error {
			_, err := v.AgentState(id)
			return err
		})
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	release, ok := s.openStream(w, r)
	if !ok {
		return
	}
	defer release()
	s.showLive(w, r, id, q["message_id"])
}

// showLive sends what an agent writes until its reader goes, is too slow, or the server ends.
func (s *Server) showLive(w http.ResponseWriter, r *http.Request, agentID, messageID string) {
	var at wire.Live
	for r.Context().Err() == nil {
		m, changed := s.host.Live(agentID, at.ItemID, at.Offset)
		news := m.ItemID != at.ItemID || m.Text != "" || m.Done != at.Done
		if m.ItemID != "" && news && (messageID == "" || messageID == m.MessageID) {
			at = wire.Live{TurnID: m.TurnID, MessageID: m.MessageID, ItemID: m.ItemID, Offset: m.Offset, Text: m.Text,
				Done: m.Done}
			data, err := json.Marshal(at)
			if err == nil {
				err = s.write(w, stream.AppendEvent(nil, "", "", data))
			}
			if err != nil {
				return
			}
			at.Offset += len(m.Text)
		}
		select {
		case <-changed:
		case <-time.After(s.limits.KeepAlive):
			if s.write(w, []byte(": nothing new\n\n")) != nil {
				return
			}
		case <-r.Context().Done():
		case <-s.ending:
			return
		}
	}
}
