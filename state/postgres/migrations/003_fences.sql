-- +goose Up

-- The fence of a lease grows whenever another process takes it, also where the database was restored in between: it is
-- the time in milliseconds, or one more than it was. Writes outside of the database carry it.
ALTER TABLE leases ADD COLUMN fence BIGINT NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- By which files outside of the database know whose they are.
INSERT INTO meta VALUES ('id', gen_random_uuid()::text);
