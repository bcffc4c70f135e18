package ledger

import (
	"fmt"
	"slices"
	"time"

	"holon/state"
)

// Record is a kind of row of the ledger. Its JSON is what is kept; Row says where.
type Record interface{ Row() Row }

// Row is where a record is kept: a table, the columns by which its rows are found, and the record itself as JSON.
type Row struct {
	Table   string
	Noun    string // Param of errors about a row
	Key     int    // how many of the first columns name the row
	Columns []Column
}

// Column is a column next to the record's JSON. A Value that is a pointer is set when the row is read; for any other,
// the JSON has what it is made of.
type Column struct {
	Name  string
	Value any
}

// Rows is what a store does within one transaction: the one seam between the ledger and a database. Queries have
// names; a store has a statement for each name that this package uses.
type Rows interface {
	// Get reads the row with a key into r. Without one the error has CodeNotFound.
	Get(r Record, key ...any) error
	// List runs a query for records, reads each row into r and calls each, which empties it. Of a damaged row it
	// reads the columns alone with salvage, and is an error without.
	List(r Record, each func(), salvage bool, query string, args ...any) error
	// Values runs a query for other values and calls each for every row, which scan reads.
	Values(each func(scan func(into ...any) error) error, query string, args ...any) error
	// Ahead lets a store that is far away read at once what read reads, which gets nothing yet.
	Ahead(read func())
	// Insert adds a row. The error has CodeConflict when the row, or one that it excludes, exists, and CodeNotFound
	// when the row that it belongs to does not.
	Insert(r Record) error
	// Update replaces the row with the key of r. Without one the error has CodeNotFound. The error of a write may come
	// with a later call, or with the end of Store.Update. After one, nothing is kept.
	Update(r Record) error
}

// View reads one snapshot. Records are copies that belong to the caller; times are UTC, to the millisecond. A record
// that does not exist is an error with CodeNotFound unless the method returns ok. Lists of the newest have the oldest
// first; a limit of zero or less is 1,000.
type View struct{ Rows Rows }

// Tx writes, and sees what it has written.
type Tx struct{ View }

// Insert adds records, in their order.
func (tx Tx) Insert(records ...Record) error { return each(records, tx.Rows.Insert) }

// Update replaces records.
func (tx Tx) Update(records ...Record) error { return each(records, tx.Rows.Update) }

func each(records []Record, do func(Record) error) error {
	for _, r := range records {
		if err := do(r); err != nil {
			return err
		}
	}
	return nil
}

// Step makes the next step of an agent: it numbers events on from s.EventSeq, stores them, and saves the state. The
// state must be as it was read in this Tx, but for what the step changed: CodeConflict when another step came between.
// s gets the new revision and the number of the newest event.
func (tx Tx) Step(s *AgentState, events ...Event) error {
	stored, err := tx.AgentState(s.AgentID)
	if err != nil {
		return err
	}
	if s.Revision != stored.Revision || s.EventSeq != stored.EventSeq {
		return &state.Error{Code: CodeConflict, Param: "agent_state",
			Message: fmt.Sprintf("the state of %s is at revision %d with event %d, and not %d with %d", s.AgentID,
				stored.Revision, stored.EventSeq, s.Revision, s.EventSeq)}
	}
	for _, e := range events {
		if len(e.Data) > MaxEventData {
			return &state.Error{Code: CodeTooLarge, Param: "data",
				Message: fmt.Sprintf("an event's data has %d bytes; %d are allowed", len(e.Data), MaxEventData)}
		}
		s.EventSeq++
		e.AgentID, e.Seq = s.AgentID, s.EventSeq
		if err := tx.Rows.Insert(&e); err != nil {
			return err
		}
	}
	s.Revision++
	return tx.Update(s)
}

// record is what a pointer to T must be for T to be a record.
type record[T any] interface {
	*T
	Record
}

// get returns the record with a key.
func get[T any, R record[T]](v View, key ...any) (r T, err error) {
	err = v.Rows.Get(R(&r), key...)
	return r, err
}

// ifAny returns the record with a key, if there is one.
func ifAny[T any, R record[T]](v View, key ...any) (r T, ok bool, err error) {
	r, err = get[T, R](v, key...)
	if state.IsCode(err, CodeNotFound) {
		return r, false, nil
	}
	return r, err == nil, err
}

// list returns the records of a query.
func list[T any, R record[T]](v View, query string, args ...any) ([]T, error) {
	return listed[T, R](v, false, query, args...)
}

// salvaged returns the records of a query, those that are damaged with their columns alone: one damaged agent hides
// nothing of the others.
func salvaged[T any, R record[T]](v View, query string, args ...any) ([]T, error) {
	return listed[T, R](v, true, query, args...)
}

func listed[T any, R record[T]](v View, salvage bool, query string, args ...any) (all []T, err error) {
	var one T
	err = v.Rows.List(R(&one), func() { all, one = append(all, one), *new(T) }, salvage, query, args...)
	return all, err
}

// first returns the record of a query that has at most one.
func first[T any, R record[T]](v View, query string, args ...any) (r T, ok bool, err error) {
	all, err := list[T, R](v, query, args...)
	if err != nil || len(all) == 0 {
		return r, false, err
	}
	return all[0], true, nil
}

// newest returns the records of a query that begins with the newest, the oldest first.
func newest[T any, R record[T]](v View, query, agentID string, limit int) ([]T, error) {
	all, err := list[T, R](v, query, agentID, limited(limit))
	slices.Reverse(all)
	return all, err
}

// values returns the one column of a query.
func values[T any](v View, query string, args ...any) (all []T, err error) {
	err = v.Rows.Values(func(scan func(...any) error) error {
		all = append(all, *new(T))
		return scan(&all[len(all)-1])
	}, query, args...)
	return all, err
}

// count returns the number that is the answer of a query.
func count(v View, query string, args ...any) (int, error) {
	n, err := values[int](v, query, args...)
	if err != nil || len(n) == 0 {
		return 0, err
	}
	return n[0], nil
}

// defaultLimit is the size of a list for which none was given.
const defaultLimit = 1000

func limited(limit int) int {
	if limit <= 0 {
		return defaultLimit
	}
	return limit
}

// millis is a time as columns have it.
func millis(t time.Time) int64 { return t.UnixMilli() }

// millisOrNil is a time that may be absent.
func millisOrNil(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UnixMilli()
}

// kept are the columns of records that are listed by agent and kept for as long as messages.
func kept(id, agentID *string, created time.Time) []Column {
	return []Column{{"id", id}, {"agent_id", agentID}, {"created_at", millis(created)}}
}
