-- +goose Up

-- The processes that share the ledger. One that is not here writes nothing: see holon_begin.
CREATE TABLE holders (
    id         TEXT COLLATE "C" PRIMARY KEY, -- of a process; it is never used again
    host       TEXT NOT NULL,                -- boot and name space in which process has its number
    process    TEXT NOT NULL,
    home       TEXT NOT NULL,
    address    TEXT NOT NULL,                -- where it is reached
    expires_at TIMESTAMPTZ NOT NULL          -- by the clock of the database
);

-- Which process runs an agent, with all agents below it. One whose holder is gone is free.
CREATE TABLE leases (
    agent_id TEXT COLLATE "C" PRIMARY KEY,
    holder   TEXT COLLATE "C" NOT NULL
);
CREATE INDEX leases_holder ON leases (holder);

-- Begins a transaction that writes: waits until no other one writes, and returns its id if the process may write, and
-- whether others share the ledger, which none begins to do meanwhile. Each of the two statements has a snapshot of its
-- own, so the second one sees what the one before this transaction has committed.
-- +goose StatementBegin
CREATE FUNCTION holon_begin(class integer, object integer, holder text, OUT xact text, OUT shared boolean)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(class, object);
    SELECT pg_current_xact_id(), (SELECT count(*) > 1 FROM holders) INTO xact, shared
        FROM holders WHERE id = holder;
END $$;
-- +goose StatementEnd
