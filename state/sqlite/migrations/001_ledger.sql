-- The ledger. Times are milliseconds since 1970, UTC; flags are 0 or 1; data is
-- the record as JSON, less what has a column of its own that is authoritative.
--
-- What every step of an agent writes is in few trees, because a commit costs by
-- the page. Ids of what Retention.Messages lets go sort by time, or the rows have
-- a number n, so that the oldest are found without an index by time.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE agents (
    id       TEXT PRIMARY KEY,
    archived INTEGER NOT NULL,
    data     TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX agents_live ON agents (id) WHERE archived = 0;

CREATE TABLE lanes (
    agent_id     TEXT PRIMARY KEY REFERENCES agents (id),
    revision     INTEGER NOT NULL,
    event_seq    INTEGER NOT NULL,
    stopped      INTEGER NOT NULL,
    chain        TEXT NOT NULL,
    wake_message TEXT NOT NULL,
    data         TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
    id         TEXT PRIMARY KEY,
    agent_id   TEXT NOT NULL REFERENCES agents (id),
    number     INTEGER NOT NULL,
    key        TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    data       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX messages_key ON messages (agent_id, key) WHERE key <> '';

CREATE TABLE entries (
    agent_id   TEXT NOT NULL,
    number     INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    band       INTEGER NOT NULL,
    priority   TEXT NOT NULL,
    status     TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    interjects INTEGER NOT NULL,
    readmitted INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    not_before INTEGER,
    reason     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, number)
) STRICT, WITHOUT ROWID;
-- OR and not IN: only so is it seen that a status that is asked for is in it.
CREATE INDEX entries_live ON entries (agent_id, status, band, number) WHERE status = 'queued' OR status = 'dequeued';

CREATE TABLE attempts (
    id         TEXT PRIMARY KEY,
    agent_id   TEXT NOT NULL REFERENCES agents (id),
    message_id TEXT NOT NULL,
    wait_id    TEXT NOT NULL,
    status     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    data       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX attempts_open ON attempts (agent_id) WHERE status = 'open';

-- A frame is large and written once, an attempt small and written often.
CREATE TABLE frames (
    attempt_id TEXT PRIMARY KEY REFERENCES attempts (id) ON DELETE CASCADE,
    digest     TEXT NOT NULL,
    frame      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
    id          TEXT PRIMARY KEY,
    agent_id    TEXT NOT NULL REFERENCES agents (id),
    number      INTEGER NOT NULL,
    response_id TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    data        TEXT NOT NULL,
    UNIQUE (agent_id, number)
) STRICT, WITHOUT ROWID;

-- parked: the agent is stopped, so that its time does not come.
CREATE TABLE waits (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    agent_id   TEXT NOT NULL REFERENCES agents (id),
    owner      TEXT NOT NULL,
    status     TEXT NOT NULL,
    call_id    TEXT NOT NULL,
    message_id TEXT NOT NULL, -- that triggered it
    attempt_id TEXT NOT NULL, -- that registered it
    due_at     INTEGER,
    parked     INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    data       TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX waits_unresolved ON waits (agent_id, owner) WHERE status IN ('active', 'triggered');
CREATE INDEX waits_due ON waits (due_at) WHERE status = 'active' AND parked = 0 AND due_at IS NOT NULL;

CREATE TABLE timers (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    agent_id   TEXT NOT NULL REFERENCES agents (id),
    key        TEXT NOT NULL,
    status     TEXT NOT NULL,
    message_id TEXT NOT NULL, -- its newest tick
    due_at     INTEGER,
    parked     INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    data       TEXT NOT NULL
) STRICT;
CREATE INDEX timers_agent ON timers (agent_id);
CREATE INDEX timers_active ON timers (agent_id) WHERE status = 'active';
CREATE UNIQUE INDEX timers_key ON timers (agent_id, key) WHERE key <> '';
CREATE INDEX timers_due ON timers (due_at) WHERE status = 'active' AND parked = 0 AND due_at IS NOT NULL;

CREATE TABLE triggers (
    id         TEXT PRIMARY KEY,
    agent_id   TEXT NOT NULL REFERENCES agents (id),
    token_hash TEXT NOT NULL UNIQUE,
    data       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX triggers_agent ON triggers (agent_id);

CREATE TABLE briefs (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    agent_id   TEXT NOT NULL REFERENCES agents (id),
    created_at INTEGER NOT NULL,
    data       TEXT NOT NULL
) STRICT;
CREATE INDEX briefs_agent ON briefs (agent_id);

CREATE TABLE transcript (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    agent_id   TEXT NOT NULL REFERENCES agents (id),
    created_at INTEGER NOT NULL,
    data       TEXT NOT NULL
) STRICT;
CREATE INDEX transcript_agent ON transcript (agent_id);

CREATE TABLE notifications (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    agent_id   TEXT NOT NULL REFERENCES agents (id),
    created_at INTEGER NOT NULL,
    data       TEXT NOT NULL
) STRICT;
CREATE INDEX notifications_agent ON notifications (agent_id);

-- Most events tell of progress. The few that an operator should see are found
-- without reading the others.
CREATE TABLE events (
    agent_id   TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    id         TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    type       TEXT NOT NULL,
    level      INTEGER NOT NULL,
    message_id TEXT,
    turn_id    TEXT,
    ref        TEXT,
    data       TEXT,
    PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX events_seldom ON events (agent_id, seq, level) WHERE level <= 3;
