-- An event of the record says which class of the Agent Runtime standard it has, what it is about, and what caused it.
-- Events of before have none of it.
ALTER TABLE events ADD COLUMN class TEXT;
ALTER TABLE events ADD COLUMN status TEXT;
ALTER TABLE events ADD COLUMN ids TEXT;
ALTER TABLE events ADD COLUMN cause TEXT;
ALTER TABLE events ADD COLUMN producer_seq INTEGER;

-- What turns did with tools, one row for each call that has ended.
CREATE TABLE tool_executions (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE, -- turn and call
    agent_id   TEXT NOT NULL REFERENCES agents (id),
    created_at INTEGER NOT NULL,
    data       TEXT NOT NULL
) STRICT;
CREATE INDEX tool_executions_agent ON tool_executions (agent_id);
