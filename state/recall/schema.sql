-- The index of one agent's memory. id grows with the time of the source, so that the newest are found first.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- source is recall.Source as JSON without its title and its body, which are kept exactly.
CREATE TABLE sources (
    id           INTEGER PRIMARY KEY,
    ref          TEXT NOT NULL UNIQUE,
    kind         TEXT NOT NULL,
    position     INTEGER NOT NULL,
    workspace_id TEXT NOT NULL, -- '': of the agent, wherever it works
    digest       BLOB NOT NULL,
    source       TEXT NOT NULL,
    title        TEXT NOT NULL,
    body         TEXT NOT NULL
) STRICT;
CREATE INDEX sources_position ON sources (kind, position);

-- The terms of the sources, by their ids. It keeps no text.
CREATE VIRTUAL TABLE terms USING fts5(title, body, content = '', contentless_delete = 1,
    tokenize = 'porter unicode61 remove_diacritics 2');
