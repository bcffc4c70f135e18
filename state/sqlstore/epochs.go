package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"math"
	"sync"
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

// meta returns what the ledger says about itself under a key.
func (t *tx) meta(key string) (value string, err error) {
	err = t.values(func(one scanner) error { return t.scan(one, &value) }, "SELECT value FROM meta WHERE key = ?", key)
	return value, t.failed("read the ledger's "+key, err)
}

func (t *tx) setMeta(key, value string) error {
	_, err := t.exec("meta", "INSERT INTO meta (key, value) VALUES (?, ?) "+
		"ON CONFLICT (key) DO UPDATE SET value = excluded.value",
		key, value)
	return t.failed("write the ledger's "+key, err)
}

// pastEpochs returns the past epochs of each agent, the oldest first. They do not change while a ledger is open.
func (t *tx) pastEpochs() (map[string][]pastEpoch, error) {
	past := make(map[string][]pastEpoch)
	text, err := t.meta("past_epochs")
	if err == nil && text != "" {
		err = t.failed("read the ledger's past epochs", json.Unmarshal([]byte(text), &past))
	}
	return past, err
}

// follow begins another epoch when the database has another history than the ledger was used with.
func (t *tx) follow(origin string) error {
	before, err := t.meta("origin")
	if err != nil || before == origin {
		return err
	}
	if before != "" {
		if err := t.beginEpoch(); err != nil {
			return err
		}
	}
	return t.setMeta("origin", origin)
}

// beginEpoch gives the ledger another epoch. Its events keep theirs.
func (t *tx) beginEpoch() error {
	past, err := t.pastEpochs()
	if err != nil {
		return err
	}
	epoch, err := t.meta("epoch")
	if err != nil {
		return err
	}
	err = t.values(func(one scanner) error {
		var agent string
		e := pastEpoch{Epoch: epoch}
		err := t.scan(one, &agent, &e.Through)
		if list := past[agent]; len(list) == 0 || list[len(list)-1].Through < e.Through {
			past[agent] = append(list, e)
		}
		return err
	}, "SELECT agent_id, event_seq FROM agent_states WHERE event_seq > 0")
	if err != nil {
		return t.failed("read the ledger's numbering", err)
	}
	text, err := json.Marshal(past)
	if err != nil {
		return t.failed("name the ledger's epoch", err)
	}
	if err := t.setMeta("past_epochs", string(text)); err != nil {
		return err
	}
	return t.setMeta("epoch", rand.Text())
}

// Renew gives a copy of a ledger another epoch.
func Renew(ctx context.Context, db *sql.DB, d Dialect) error {
	return within(ctx, db, nil, &tx{dialect: d, texts: new(sync.Map)}, func(t *tx) error {
		if err := t.beginEpoch(); err != nil {
			return err
		}
		return t.commit()
	})
}
