-- A row of a turn is longer than what a page of a table WITHOUT ROWID holds of one, so that each took a page of its own.
CREATE TABLE turns_by_number (
    n           INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    agent_id    TEXT NOT NULL REFERENCES agents (id),
    number      INTEGER NOT NULL,
    response_id TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    data        TEXT NOT NULL,
    UNIQUE (agent_id, number)
) STRICT;
INSERT INTO turns_by_number (id, agent_id, number, response_id, created_at, data)
SELECT id, agent_id, number, response_id, created_at, data FROM turns ORDER BY id;
DROP TABLE turns;
ALTER TABLE turns_by_number RENAME TO turns;
