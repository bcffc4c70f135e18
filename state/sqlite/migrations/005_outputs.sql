-- Directories of turns that are gone, or are about to be removed: the row is written first, with an event.
CREATE TABLE expired_outputs (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE, -- of the turn
    agent_id   TEXT NOT NULL REFERENCES agents (id),
    created_at INTEGER NOT NULL,
    data       TEXT NOT NULL
) STRICT;
