-- +goose Up

-- The ledger. Times are milliseconds since 1970, UTC; flags are 0 or 1; data is
-- the record as JSON, next to the columns by which its rows are found.
--
-- Strings other than data are compared by their bytes, whatever the locale of the database.
-- Ids of what Retention.Messages lets go sort by time, or the rows have a number n,
-- so that the oldest are found without an index by time.

CREATE TABLE meta (
    key   TEXT COLLATE "C" PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL
);

CREATE TABLE agents (
    id       TEXT COLLATE "C" PRIMARY KEY,
    archived BIGINT NOT NULL,
    data     TEXT NOT NULL
);
CREATE INDEX agents_live ON agents (id) WHERE archived = 0;

-- What every step of an agent reads and writes.
CREATE TABLE agent_states (
    agent_id     TEXT COLLATE "C" PRIMARY KEY REFERENCES agents (id),
    event_seq    BIGINT NOT NULL,
    stopped      BIGINT NOT NULL,
    chain        TEXT COLLATE "C" NOT NULL,
    wake_message TEXT COLLATE "C" NOT NULL,
    data         TEXT NOT NULL
);
CREATE INDEX agent_states_stopped ON agent_states (agent_id) WHERE stopped = 1;

CREATE TABLE messages (
    id         TEXT COLLATE "C" PRIMARY KEY,
    agent_id   TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    number     BIGINT NOT NULL,
    key        TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    data       TEXT NOT NULL
);
CREATE UNIQUE INDEX messages_number ON messages (agent_id, number);
CREATE UNIQUE INDEX messages_key ON messages (agent_id, key) WHERE key <> '';

-- The queues. Who sent a message orders a queue before its priority does: a band is 4
-- for each rank of ledger.Sender and one for each ledger.Priority.
CREATE TABLE entries (
    message_id TEXT COLLATE "C" PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
    agent_id   TEXT COLLATE "C" NOT NULL,
    number     BIGINT NOT NULL,
    band       BIGINT NOT NULL,
    status     TEXT COLLATE "C" NOT NULL,
    attempt_id TEXT COLLATE "C" NOT NULL,
    data       TEXT NOT NULL
);
-- OR and not IN: only so is it seen that a status that is asked for is in it.
CREATE INDEX entries_live ON entries (agent_id, status, band, number) WHERE status = 'queued' OR status = 'dequeued';

CREATE TABLE attempts (
    id         TEXT COLLATE "C" PRIMARY KEY,
    agent_id   TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    message_id TEXT COLLATE "C" NOT NULL,
    wait_id    TEXT COLLATE "C" NOT NULL, -- of several, with spaces between
    status     TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    data       TEXT NOT NULL
);
CREATE UNIQUE INDEX attempts_open ON attempts (agent_id) WHERE status = 'open';

-- A prompt is large and written once, an attempt small and written often.
CREATE TABLE prompts (
    attempt_id TEXT COLLATE "C" PRIMARY KEY REFERENCES attempts (id) ON DELETE CASCADE,
    data       TEXT NOT NULL
);

CREATE TABLE turns (
    n           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          TEXT COLLATE "C" NOT NULL UNIQUE,
    agent_id    TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    number      BIGINT NOT NULL,
    response_id TEXT COLLATE "C" NOT NULL,
    created_at  BIGINT NOT NULL,
    data        TEXT NOT NULL,
    UNIQUE (agent_id, number)
);

CREATE TABLE waits (
    n          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         TEXT COLLATE "C" NOT NULL UNIQUE,
    agent_id   TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    owner      TEXT COLLATE "C" NOT NULL,
    status     TEXT COLLATE "C" NOT NULL,
    call_id    TEXT COLLATE "C" NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL, -- that triggered it
    attempt_id TEXT COLLATE "C" NOT NULL, -- that registered it
    due_at     BIGINT,
    created_at BIGINT NOT NULL,
    data       TEXT NOT NULL
);
CREATE UNIQUE INDEX waits_unresolved ON waits (agent_id, owner) WHERE status IN ('active', 'triggered');
CREATE INDEX waits_due ON waits (due_at) WHERE status = 'active' AND due_at IS NOT NULL;

CREATE TABLE timers (
    n          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         TEXT COLLATE "C" NOT NULL UNIQUE,
    agent_id   TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    key        TEXT COLLATE "C" NOT NULL,
    status     TEXT COLLATE "C" NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL, -- its newest tick
    due_at     BIGINT,
    created_at BIGINT NOT NULL,
    data       TEXT NOT NULL
);
CREATE INDEX timers_agent ON timers (agent_id);
CREATE INDEX timers_active ON timers (agent_id) WHERE status = 'active';
CREATE UNIQUE INDEX timers_key ON timers (agent_id, key) WHERE key <> '';
CREATE INDEX timers_due ON timers (due_at) WHERE status = 'active' AND due_at IS NOT NULL;

CREATE TABLE triggers (
    id         TEXT COLLATE "C" PRIMARY KEY,
    agent_id   TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    token_hash TEXT COLLATE "C" NOT NULL UNIQUE,
    data       TEXT NOT NULL
);
CREATE INDEX triggers_agent ON triggers (agent_id);

-- No number is used again: readers follow briefs by it.
CREATE TABLE briefs (
    n          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         TEXT COLLATE "C" NOT NULL UNIQUE,
    agent_id   TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    created_at BIGINT NOT NULL,
    data       TEXT NOT NULL
);
CREATE INDEX briefs_agent ON briefs (agent_id);

CREATE TABLE notifications (
    n          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         TEXT COLLATE "C" NOT NULL UNIQUE,
    agent_id   TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    created_at BIGINT NOT NULL,
    matter     TEXT COLLATE "C" NOT NULL, -- of one that is open, else ''
    data       TEXT NOT NULL
);
CREATE INDEX notifications_agent ON notifications (agent_id);
CREATE INDEX notifications_open ON notifications (agent_id, matter) WHERE matter <> '';

-- Ways by which notifications reach the operator outside of this host.
CREATE TABLE operator_bindings (
    id         TEXT COLLATE "C" PRIMARY KEY,
    agent_id   TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    token_hash TEXT COLLATE "C" NOT NULL,
    data       TEXT NOT NULL
);
CREATE INDEX operator_bindings_agent ON operator_bindings (agent_id);

-- Deliveries of notifications: the outbox is those that have a due_at.
CREATE TABLE deliveries (
    n               BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id              TEXT COLLATE "C" NOT NULL UNIQUE,
    agent_id        TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    created_at      BIGINT NOT NULL,
    notification_id TEXT COLLATE "C" NOT NULL,
    due_at          BIGINT,
    data            TEXT NOT NULL
);
CREATE INDEX deliveries_agent ON deliveries (agent_id);
CREATE INDEX deliveries_notification ON deliveries (notification_id);
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE due_at IS NOT NULL;

-- Most events record progress. The few that an operator should see are found without
-- reading the others.
CREATE TABLE events (
    agent_id   TEXT COLLATE "C" NOT NULL,
    seq        BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    level      BIGINT NOT NULL,
    turn_id    TEXT COLLATE "C" NOT NULL,
    data       TEXT NOT NULL,
    PRIMARY KEY (agent_id, seq)
);
CREATE INDEX events_notable ON events (agent_id, seq, level) WHERE level <= 3;

-- What agents work on. due_at is when a blocked item is looked at again.
CREATE TABLE work_items (
    n        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id       TEXT COLLATE "C" NOT NULL UNIQUE,
    agent_id TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    state    TEXT COLLATE "C" NOT NULL,
    ended_at BIGINT,
    due_at   BIGINT,
    step     BIGINT NOT NULL, -- with which it changed
    data     TEXT NOT NULL
);
CREATE INDEX work_items_step ON work_items (agent_id, step);
CREATE INDEX work_items_open ON work_items (agent_id) WHERE state = 'open';
CREATE INDEX work_items_ended ON work_items (agent_id, ended_at) WHERE state = 'completed';
CREATE INDEX work_items_due ON work_items (due_at) WHERE due_at IS NOT NULL;

-- What agents reported when they completed a work item.
CREATE TABLE delivery_summaries (
    work_item_id TEXT COLLATE "C" PRIMARY KEY REFERENCES work_items (id),
    data         TEXT NOT NULL
);

-- Directories of turns that are gone, or are about to be removed: the row is written first, with an event.
CREATE TABLE expired_outputs (
    n          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         TEXT COLLATE "C" NOT NULL UNIQUE, -- of the turn
    agent_id   TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    created_at BIGINT NOT NULL,
    data       TEXT NOT NULL
);

-- An id is unique with its agent: it comes from the container.
CREATE TABLE tasks (
    n          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent_id   TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    id         TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    open       BIGINT NOT NULL,
    data       TEXT NOT NULL,
    UNIQUE (agent_id, id)
);
CREATE INDEX tasks_agent ON tasks (agent_id);
CREATE INDEX tasks_open ON tasks (agent_id) WHERE open = 1;

-- Commands of the Agent Runtime standard that changed something, each with its answer, for when it comes again.
CREATE TABLE commands (
    n          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent_id   TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    id         TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    data       TEXT NOT NULL,
    UNIQUE (agent_id, id)
);

-- Directories of the operator's in which agents may work on copies.
CREATE TABLE workspaces (
    id   TEXT COLLATE "C" PRIMARY KEY,
    data TEXT NOT NULL
);

-- The copies. A name is used again when its tree was removed.
CREATE TABLE trees (
    agent_id TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    name     TEXT COLLATE "C" NOT NULL,
    status   TEXT COLLATE "C" NOT NULL,
    task_id  TEXT COLLATE "C" NOT NULL,
    data     TEXT NOT NULL,
    PRIMARY KEY (agent_id, name)
);
CREATE INDEX trees_task ON trees (task_id) WHERE task_id <> '';

-- What the runtime keeps for an agent from one turn to the next; rewritten once a turn.
CREATE TABLE memories (
    agent_id TEXT COLLATE "C" PRIMARY KEY REFERENCES agents (id),
    data     TEXT NOT NULL
);

-- Stretches of turns that are over. They are never changed and never pruned.
CREATE TABLE episodes (
    id       TEXT COLLATE "C" PRIMARY KEY,
    agent_id TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
    number   BIGINT NOT NULL,
    data     TEXT NOT NULL
);
CREATE UNIQUE INDEX episodes_number ON episodes (agent_id, number);

CREATE FUNCTION instr(text, text) RETURNS integer LANGUAGE sql IMMUTABLE RETURN strpos($1, $2);
