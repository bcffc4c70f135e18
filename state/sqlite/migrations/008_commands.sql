-- Commands of the Agent Runtime standard that changed something, each with its answer, for when it comes again.
CREATE TABLE commands (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE, -- of the agent and the command
    agent_id   TEXT NOT NULL REFERENCES agents (id),
    created_at INTEGER NOT NULL,
    data       TEXT NOT NULL
) STRICT;
