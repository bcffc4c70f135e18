// Package store keeps files that matter beyond a host in a bucket, so that another host can go on.
//
//	lease taken ─▶ Load: manifest ─▶ claim it (If-Match) ─▶ discard the container that was here ─▶ files ─▶ agent opens
//	turn ended  ─▶ Save: changed files ─▶ objects ─▶ manifest (If-Match) ─▶ the ledger settles the turn
//	no lease    ─▶ Open: manifest ─▶ one object
//
// What is kept of one agent, or of one session of a client, is a Unit: a directory, described by one manifest (path,
// mode, time, size, digest), whose files are objects named by their digests:
//
//	PREFIX/ledger                        id of the ledger whose files these are
//	PREFIX/UNIT/manifest                 gzip of JSON
//	PREFIX/UNIT/objects/SHA256-FENCE     content of a file, and the fence of the lease under which it was written
//
// The manifest is written last and conditionally, with the fence of the lease: a number that grows whenever the lease
// goes to another process. A process that takes a lease claims the manifest first, so that an earlier holder, whatever
// it has begun, writes none any more. A holder removes only objects of its own and of earlier fences that no manifest
// of its own names, so it never removes what a later one wrote.
//
// The invariants: what a settled turn left can be read by the next holder; a manifest never names an object that is not
// there; nothing in a bucket leads out of the directory of its unit, or is believed before its digest is that of the
// manifest. Files of a unit are loaded only when its manifest is not the one that this host wrote last. What is here
// then and was never saved is moved aside, not removed.
//
// A file that changes while it is saved is saved as it was at some moment; several files are not of one moment.
// Sockets, pipes and devices are left out.
package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"time"

	"holon/state"
)

// Codes of errors.
const (
	CodeURL     state.Code = "store_url"         // it names no bucket, or a way that is not safe
	CodeAway    state.Code = "store_unavailable" // the bucket does not answer, or not in time
	CodeDenied  state.Code = "store_denied"      // the credentials are missing or do not suffice
	CodeFull    state.Code = "store_full"        // the bucket takes no more
	CodeDamaged state.Code = "store_damaged"     // what the bucket has is not what was written
	CodeLost    state.Code = "store_lease_lost"  // a later holder has the unit
	CodeOther   state.Code = "store_of_another"  // the bucket has the files of another ledger
	CodeTooMuch state.Code = "store_too_large"   // the directory has more than a manifest can have
	CodeBusy    state.Code = "store_not_loaded"  // the files of an agent are not here yet
)

// Bucket keeps objects by name. Errors are *state.Error with a code of above, or one of the following.
type Bucket interface {
	// Get opens an object and returns its ETag; fs.ErrNotExist when there is none. The caller closes it.
	Get(ctx context.Context, name string) (body io.ReadCloser, etag string, err error)
	// Put writes size bytes. It may be repeated.
	Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error
	// PutIf writes an object that still has an ETag, "" for one that is not there, and returns the new one. It is
	// errChanged when the object has another: also where an earlier call wrote it and its answer was lost.
	PutIf(ctx context.Context, name string, data []byte, etag string) (string, error)
	// List lists the objects whose names begin with prefix. An error ends it.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
	// Delete removes an object; one that is not there is success.
	Delete(ctx context.Context, name string) error
}

// Object is one that a Bucket lists.
type Object struct {
	Name    string
	Changed time.Time
}

var errChanged = errors.New("the object is not as it was")

// Bind makes the bucket that of a ledger, or refuses one of another.
func Bind(ctx context.Context, b Bucket, ledger string) error {
	_, err := b.PutIf(ctx, "ledger", []byte(ledger), "")
	if !errors.Is(err, errChanged) {
		return err
	}
	body, _, err := b.Get(ctx, "ledger")
	if err != nil {
		return err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, 1<<10))
	if err == nil && string(text) != ledger {
		err = &state.Error{Code: CodeOther, Param: "store", Message: "the bucket has the files of another ledger there",
			Hint: "give another PREFIX"}
	}
	return err
}

func missing(name string) error { return &fs.PathError{Op: "get", Path: name, Err: fs.ErrNotExist} }

func damaged(what string, err error) error {
	return &state.Error{Code: CodeDamaged, Param: "store", Message: "what the bucket has is damaged: " + what, Err: err,
		Hint: "put back the object as it was, for example from a version that the bucket keeps"}
}
