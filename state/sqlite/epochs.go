package sqlite

import (
	"crypto/rand"
	"encoding/json"
	"math"
)

// pastEpoch is an epoch that a restoration ended, for the events of an agent up to a number.
type pastEpoch struct {
	Through int64  `json:"through"`
	Epoch   string `json:"epoch"`
}

// EpochOf implements ledger.Store.
func (s *Store) EpochOf(agentID string, seq int64) string {
	for _, e := range s.past[agentID] {
		if seq <= e.Through {
			return e.Epoch
		}
	}
	return s.epoch
}

// SharedThrough implements ledger.Store.
func (s *Store) SharedThrough(agentID, epoch string) int64 {
	if epoch == s.epoch {
		return math.MaxInt64
	}
	for _, e := range s.past[agentID] {
		if e.Epoch == epoch {
			return e.Through
		}
	}
	return 0
}

// readPast returns the past epochs of each agent, the oldest first. They do not change while a ledger is open.
func readPast(c *conn) (past map[string][]pastEpoch, err error) {
	err = c.query(func(r *row) error { return json.Unmarshal([]byte(r.text()), &past) },
		"SELECT value FROM meta WHERE key = 'past_epochs'")
	return past, failed("read the ledger's past epochs", err)
}

// beginEpoch gives the ledger another epoch. Its events keep theirs.
func beginEpoch(c *conn) error {
	past, err := readPast(c)
	if err != nil {
		return err
	}
	if past == nil {
		past = make(map[string][]pastEpoch)
	}
	err = c.query(func(r *row) error {
		agent, e := r.text(), pastEpoch{r.integer(), r.text()}
		if list := past[agent]; len(list) == 0 || list[len(list)-1].Through < e.Through {
			past[agent] = append(list, e)
		}
		return nil
	}, "SELECT agent_id, event_seq, (SELECT value FROM meta WHERE key = 'epoch') FROM lanes WHERE event_seq > 0")
	if err != nil {
		return failed("read the ledger's numbering", err)
	}
	text, err := json.Marshal(past)
	if err != nil {
		return failed("name the ledger's epoch", err)
	}
	_, err = c.exec(
		"INSERT INTO meta (key, value) VALUES ('past_epochs', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1",
		string(text),
	)
	if err == nil {
		_, err = c.exec("UPDATE meta SET value = ? WHERE key = 'epoch'", rand.Text())
	}
	return failed("name the ledger's epoch", err)
}
