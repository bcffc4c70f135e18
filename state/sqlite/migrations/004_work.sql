-- What agents work on. due_at is when a blocked item is looked at again.
CREATE TABLE work_items (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    agent_id   TEXT NOT NULL REFERENCES agents (id),
    state      TEXT NOT NULL,
    ended_at   INTEGER,
    due_at     INTEGER,
    parked     INTEGER NOT NULL DEFAULT 0,
    data       TEXT NOT NULL
) STRICT;
CREATE INDEX work_items_agent ON work_items (agent_id);
CREATE INDEX work_items_open ON work_items (agent_id) WHERE state = 'open';
CREATE INDEX work_items_ended ON work_items (agent_id, ended_at) WHERE state = 'completed';
CREATE INDEX work_items_due ON work_items (due_at) WHERE due_at IS NOT NULL;

-- What agents reported when they completed a work item.
CREATE TABLE delivery_summaries (
    work_item_id TEXT PRIMARY KEY REFERENCES work_items (id),
    data         TEXT NOT NULL
) STRICT, WITHOUT ROWID;
