package record

import (
	"errors"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"holon/internal/durable"
	"holon/responses/turns"
)

// unsynced is what several files of a turn need to be durable.
type unsynced struct {
	frames []frame
	logs   map[*Log]frame
}

// take collects what of the trajectory and the logs is not on disk.
func (t *Turn) take(logs ...*Log) (*unsynced, error) {
	u := &unsynced{logs: make(map[*Log]frame)}
	f, ok, err := t.trajectory.take()
	if err != nil {
		return nil, err
	}
	if ok {
		u.frames = append(u.frames, f)
	}
	for _, l := range logs {
		f, ok, err := l.take()
		if err != nil {
			return nil, err
		}
		if ok {
			u.frames, u.logs[l] = append(u.frames, f), f
		}
	}
	return u, nil
}

// commit makes it durable with one sync.
func (u *unsynced) commit(j *journal) error {
	if err := j.commit(u.frames...); err != nil {
		return err
	}
	for l, f := range u.logs {
		l.confirm(f)
	}
	return nil
}

// settleFiles makes what the trajectory and the logs hold durable, in one commit,
// with record as the new turn.json.
func (t *Turn) settleFiles(record []byte, logs ...*Log) error {
	path := filepath.Join(t.Dir, turns.RecordFile)
	if len(record) > maxShared {
		if err := durable.WriteFile(path, record, durable.Private); err != nil {
			return err
		}
		u, err := t.take(logs...)
		if err != nil {
			return err
		}
		return u.commit(t.store.journal)
	}
	t.store.journal.filing.RLock()
	defer t.store.journal.filing.RUnlock()
	var group errgroup.Group
	group.Go(func() error { return durable.Replace(path, record) }) // the journal makes it durable
	u, err := t.take(logs...)
	if err == nil {
		u.frames = append(u.frames, frame{kind: frameReplace, path: path, data: record})
		err = u.commit(t.store.journal)
	}
	return errors.Join(err, group.Wait())
}
