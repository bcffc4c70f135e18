-- The code of the reason why a message is in its status, for programs. Blocked messages get theirs when they are tried
-- again, which every start of the daemon does.
ALTER TABLE entries ADD COLUMN code TEXT NOT NULL DEFAULT '';
