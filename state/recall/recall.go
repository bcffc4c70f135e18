// Package recall keeps the search index of one agent's memory in a SQLite file.
//
//	Open ─▶ Put(sources, cursor) ─▶ Search(query) ─▶ matches with a ref ─▶ Get(ref)
//
// The index is disposable: whoever feeds it can make it again from what it was made of,
// so a file that is damaged, of another version or of another origin is replaced by an
// empty one. The invariant: one made anew has the same sources under the same refs and
// finds the same as one that was fed bit by bit. A ref follows from a key that only the
// host has, so no one can construct one.
//
// A search considers at most the newest 200 sources of each term, and counts in the newest
// 4,096 of all how rare a term is. An index is safe for concurrent use within one process,
// and has one process at a time.
package recall

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	_ "embed" // the schema
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"
	code "modernc.org/sqlite/lib"
)

// Source is what can be found. Kind and ID name it.
type Source struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Position orders the sources of a kind whose oldest ones leave the index; 0: they leave it by their ids.
	Position    int64             `json:"position,omitempty"`
	WorkspaceID string            `json:"workspace_id,omitempty"` // whose it is; "": the agent's, wherever it works
	Path        string            `json:"source_path,omitempty"`  // of a file, within the agent's home
	Title       string            `json:"-"`
	UpdatedAt   time.Time         `json:"updated_at"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Body        string            `json:"-"`
}

// Key names a source.
type Key struct{ Kind, ID string }

// Batch is one change of an index, which is made as a whole.
type Batch struct {
	Put    []Source         // in place of the sources of the same names
	Remove []Key            // of which there may be none
	Oldest map[string]int64 // by kind: sources with a smaller Position are gone
	Cursor string           // how far the index now is, for the one that feeds it
}

// ErrDamaged is the error of an index whose file cannot be read. Opening it anew with another origin, or after Remove,
// helps.
var ErrDamaged = errors.New("the memory index is damaged")

// Options of an Index.
type Options struct {
	Path   string // of the file; its directory exists
	Origin string // of what the sources come from: with another one, the index begins empty
	Key    []byte // of refs
}

// Index is an open index.
type Index struct {
	db   *sql.DB
	opts Options
}

// applicationID marks a file as an index, "HoMe", and version is that of its schema and of the terms of a text.
const (
	applicationID = 0x486f4d65
	version       = 2
)

//go:embed schema.sql
var schema string

// Open opens an index. Where there is none that can be used, it makes an empty one.
func Open(ctx context.Context, opts Options) (*Index, error) {
	path, err := filepath.Abs(opts.Path)
	if err != nil {
		return nil, fmt.Errorf("open the memory index: %w", err)
	}
	opts.Path = path
	ix := &Index{opts: opts}
	usable, err := ix.usable(ctx)
	if err == nil && usable {
		return ix, nil
	}
	if closed := ix.Close(); err == nil {
		err = closed
	}
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	if err := Remove(opts.Path); err != nil {
		return nil, err
	}
	if err := ix.create(ctx); err != nil {
		return nil, errors.Join(err, ix.Close())
	}
	return ix, nil
}

// Remove removes the file of an index, which no one has open, and whatever else has one of its names.
func Remove(path string) error {
	var errs []error
	for _, name := range []string{path, path + "-wal", path + "-shm", path + "-journal"} {
		errs = append(errs, os.RemoveAll(name))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the memory index: %w", err)
	}
	return nil
}

// usable opens the file and reports whether it is an index of the same origin.
func (ix *Index) usable(ctx context.Context) (bool, error) {
	info, err := os.Lstat(ix.opts.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (info.Size() == 0 || !info.Mode().IsRegular()) {
		return false, nil
	}
	if err == nil {
		err = ix.dial()
	}
	if err != nil {
		return false, fmt.Errorf("open the memory index: %w", err)
	}
	var id, is, tables int
	err = ix.db.QueryRowContext(ctx, "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema WHERE "+
		"name IN ('meta', 'sources', 'terms')) FROM pragma_application_id, pragma_user_version").Scan(&id, &is, &tables)
	if err != nil || id != applicationID || is != version || tables != 3 {
		return false, failed("open the memory index", err)
	}
	origin, err := ix.meta(ctx, "origin")
	return err == nil && origin == ix.origin(), err
}

// origin is what is kept of the origin of the sources and of the key of the refs.
func (ix *Index) origin() string {
	sum := hmac.New(sha256.New, ix.opts.Key)
	sum.Write([]byte("origin\x00" + ix.opts.Origin))
	return base32.StdEncoding.EncodeToString(sum.Sum(nil))
}

// dial makes the one connection. An index that a power loss cuts is whole, and may be older than it was.
func (ix *Index) dial() (err error) {
	parameters := url.Values{"_pragma": {"busy_timeout(5000)", "journal_mode(wal)",
		"synchronous(normal)", "journal_size_limit(4194304)", "trusted_schema(0)", "cell_size_check(1)"}}
	ix.db, err = sql.Open("sqlite", "file:"+(&url.URL{Path: ix.opts.Path}).EscapedPath()+"?"+parameters.Encode())
	if err == nil {
		ix.db.SetMaxOpenConns(1)
	}
	return err
}

func (ix *Index) create(ctx context.Context) error {
	// SQLite gives its other files the same mode
	f, err := os.OpenFile(ix.opts.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(f.Close(), ix.dial())
	}
	if err != nil {
		return fmt.Errorf("make the memory index: %w", err)
	}
	return ix.within(ctx, "make the memory index", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, schema+fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d",
			applicationID, version)); err != nil {
			return err
		}
		return setMeta(ctx, tx, "origin", ix.origin())
	})
}

// Close closes the index.
func (ix *Index) Close() error {
	if ix.db == nil {
		return nil
	}
	if err := ix.db.Close(); err != nil {
		return fmt.Errorf("close the memory index: %w", err)
	}
	return nil
}

// Cursor is that of the newest Batch, "" for an index that is empty.
func (ix *Index) Cursor(ctx context.Context) (string, error) { return ix.meta(ctx, "cursor") }

func (ix *Index) meta(ctx context.Context, key string) (value string, err error) {
	err = ix.db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = ?", key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, failed("read the memory index", err)
}

func setMeta(ctx context.Context, tx *sql.Tx, key, value string) error {
	_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", key, value)
	return err
}

// Put makes a change of the index.
func (ix *Index) Put(ctx context.Context, b Batch) error {
	return ix.within(ctx, "write the memory index", func(tx *sql.Tx) error {
		w := writer{ctx: ctx, tx: tx, prepared: make(map[string]*sql.Stmt)}
		for _, k := range b.Remove {
			w.remove("ref = ?", ix.ref(k))
		}
		for kind, oldest := range b.Oldest {
			w.remove("kind = ? AND position < ?", kind, oldest)
		}
		for _, s := range b.Put {
			w.put(ix.ref(Key{s.Kind, s.ID}), s)
		}
		if w.err != nil {
			return w.err
		}
		return setMeta(ctx, tx, "cursor", b.Cursor)
	})
}

// writer writes within a transaction. After the first failure it writes nothing.
type writer struct {
	ctx      context.Context
	tx       *sql.Tx
	prepared map[string]*sql.Stmt // by its text
	err      error
}

// exec runs a statement and returns how many rows it changed.
func (w *writer) exec(text string, args ...any) int64 {
	if w.err == nil && w.prepared[text] == nil {
		w.prepared[text], w.err = w.tx.PrepareContext(w.ctx, text) // the end of the transaction closes it
	}
	if w.err != nil {
		return 0
	}
	result, err := w.prepared[text].ExecContext(w.ctx, args...)
	if err != nil {
		w.err = err
		return 0
	}
	n, err := result.RowsAffected()
	w.err = err
	return n
}

// remove removes sources and their terms.
func (w *writer) remove(where string, args ...any) {
	w.exec("DELETE FROM terms WHERE rowid IN (SELECT id FROM sources WHERE "+where+")", args...)
	w.exec("DELETE FROM sources WHERE "+where, args...)
}

// encode returns a source as JSON, without its title and its body, and a digest of all of it.
func (s Source) encode() (data []byte, digest [sha256.Size]byte, err error) {
	data, err = json.Marshal(s)
	return data, sha256.Sum256(slices.Concat(data, []byte(strconv.Quote(s.Title)), []byte(s.Body))), err
}

// Digest tells a source from one that differs in anything.
func (s Source) Digest() string {
	_, digest, _ := s.encode() // it has texts and a time
	return hex.EncodeToString(digest[:12])
}

// put replaces a source, unless it is what it was.
func (w *writer) put(ref string, s Source) {
	data, digest, err := s.encode()
	if err != nil {
		w.err = errors.Join(w.err, err)
		return
	}
	if w.exec("UPDATE sources SET digest = digest WHERE ref = ? AND digest = ?", ref, digest[:]) > 0 {
		return
	}
	if w.exec("UPDATE sources SET digest = x'' WHERE ref = ?", ref) > 0 { // it was another one
		w.remove("ref = ?", ref)
	}
	id := firstID(s.UpdatedAt, ref)
	for w.err == nil && w.exec("INSERT INTO sources (id, ref, kind, position, workspace_id, digest, source, title, "+
		"body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING", id, ref, s.Kind, s.Position, s.WorkspaceID,
		digest[:], string(data), s.Title, s.Body) == 0 {
		id++
	}
	w.exec("INSERT INTO terms (rowid, title, body) VALUES (?, ?, ?)", id, indexed(s.Title), indexed(s.Body))
}

// Bits of an id: the milliseconds of the source's time, then some of its ref, by which sources of the same time differ.
const (
	refBits  = 20
	timeBits = 42 // until the year 2109
)

// firstID is the id of a source, whichever were indexed before it.
func firstID(at time.Time, ref string) int64 {
	sum := sha256.Sum256([]byte(ref))
	low := int64(sum[0])<<16 | int64(sum[1])<<8 | int64(sum[2])
	return min(max(at.UnixMilli(), 0), 1<<timeBits-1)<<refBits | low&(1<<refBits-1)
}

// refPrefix is that of refs.
const refPrefix = "mem_"

// ref is the handle of a source.
func (ix *Index) ref(k Key) string {
	sum := hmac.New(sha256.New, ix.opts.Key)
	sum.Write([]byte("source\x00" + k.Kind + "\x00" + k.ID))
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum.Sum(nil))
	return refPrefix + strings.ToLower(text[:26])
}

// within runs fn in a transaction.
func (ix *Index) within(ctx context.Context, doing string, fn func(*sql.Tx) error) error {
	tx, err := ix.db.BeginTx(ctx, nil)
	if err != nil {
		return failed(doing, err)
	}
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return failed(doing, err)
	}
	return failed(doing, tx.Commit())
}

// failed is err with what was being done, as ErrDamaged if the file is at fault.
func failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() & 0xff {
		case code.SQLITE_CORRUPT, code.SQLITE_NOTADB, code.SQLITE_CANTOPEN, code.SQLITE_READONLY, code.SQLITE_IOERR:
			return fmt.Errorf("%s: %w: %w", doing, ErrDamaged, err)
		}
	}
	return fmt.Errorf("%s: %w", doing, err)
}
