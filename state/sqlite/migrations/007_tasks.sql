-- Commands that go on in the containers of agents. An id is unique with its agent: it comes from the container.
CREATE TABLE tasks (
    n          INTEGER PRIMARY KEY,
    agent_id   TEXT NOT NULL REFERENCES agents (id),
    id         TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    open       INTEGER NOT NULL,
    data       TEXT NOT NULL,
    UNIQUE (agent_id, id)
) STRICT;
CREATE INDEX tasks_agent ON tasks (agent_id);
CREATE INDEX tasks_open ON tasks (agent_id) WHERE open = 1;
