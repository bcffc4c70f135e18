package recall

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"holon/state"
	"holon/state/ledger"
)

// Query says what is searched for.
type Query struct {
	Text string
	// WorkspaceID is the workspace whose sources are found besides those of the agent itself; All: those of every one.
	WorkspaceID string
	All         bool
	Limit       int       // of matches
	Now         time.Time // from which the age of a source counts
}

// Match is a source that was found.
type Match struct {
	Source         // without its body
	Ref     string // for Get
	Snippet string // of its body, a part that has a term
	Score   float64
}

// CodeInvalidQuery is of a query that has no text.
const CodeInvalidQuery state.Code = "invalid_query"

// Bounds of a search.
const (
	maxCandidates = 200 // of a term, the newest
	maxSnippet    = 240 // characters
)

// How much newer sources count for more: one of now counts 1+recencyWeight times, and what it has more halves in
// recencyHalf.
const (
	recencyWeight = 0.25
	recencyHalf   = 30 * 24 * time.Hour
)

// Search returns the sources that fit a query best, the best first: by BM25 over its terms, with a preference for newer
// ones. Every text but an empty one is a query; one without letters and digits finds nothing.
func (ix *Index) Search(ctx context.Context, q Query) (matches []Match, err error) {
	if strings.TrimSpace(q.Text) == "" {
		return nil, &state.Error{Code: CodeInvalidQuery, Param: "query", Message: "the query is empty",
			Hint: "give the words to search for"}
	}
	terms := queryTerms(q.Text)
	err = ix.within(ctx, "search the memory index", func(tx *sql.Tx) error {
		scores, err := scored(ctx, tx, q, terms)
		if err != nil {
			return err
		}
		matches = make([]Match, 0, min(q.Limit, len(scores)))
		for _, id := range best(scores, q) {
			m := Match{Score: scores[id]}
			if m.Source, m.Ref, err = read(ctx, tx, "id = ?", id); err != nil {
				return err
			}
			m.Snippet, m.Body = snippet(m.Body, terms), ""
			matches = append(matches, m)
		}
		return nil
	})
	return matches, err
}

// scored are the ids of what has any of the terms, with the BM25 of those that it has. The score of a source is the sum
// over its terms, and a common term counts for the newest of its sources alone: so one query asks for all the terms
// together, where it says something about older ones.
func scored(ctx context.Context, tx *sql.Tx, q Query, terms []string) (map[int64]float64, error) {
	scores := make(map[int64]float64)
	for _, term := range terms {
		err := candidates(ctx, tx, q, term, func(id int64, score float64) { scores[id] += score })
		if err != nil {
			return nil, err
		}
	}
	if len(terms) < 2 {
		return scores, nil
	}
	err := candidates(ctx, tx, q, strings.Join(terms, " AND "), func(id int64, score float64) {
		scores[id] = max(scores[id], score)
	})
	return scores, err
}

// candidates calls each with the newest sources that an expression of FTS5 finds.
func candidates(ctx context.Context, tx *sql.Tx, q Query, expression string, each func(int64, float64)) error {
	rows, err := tx.QueryContext(ctx, `SELECT terms.rowid, -bm25(terms, 3, 1) FROM terms
		CROSS JOIN sources ON sources.id = terms.rowid
		WHERE terms MATCH ? AND (? OR workspace_id IN ('', ?)) ORDER BY terms.rowid DESC LIMIT ?`,
		expression, q.All, q.WorkspaceID, maxCandidates)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var score float64
		if err := rows.Scan(&id, &score); err != nil {
			return err
		}
		each(id, score)
	}
	return rows.Err()
}

// best are the ids with the highest scores, after it has weighted the scores by age.
func best(scores map[int64]float64, q Query) []int64 {
	ids := make([]int64, 0, len(scores))
	for id := range scores {
		age := max(0, q.Now.Sub(time.UnixMilli(id>>refBits)))
		scores[id] *= 1 + recencyWeight*math.Exp2(-float64(age)/float64(recencyHalf))
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b int64) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(b, a))
	})
	return ids[:min(len(ids), q.Limit)]
}

func read(ctx context.Context, tx *sql.Tx, where string, arg any) (s Source, ref string, err error) {
	var data []byte
	err = tx.QueryRowContext(ctx, "SELECT ref, source, body FROM sources WHERE "+where, arg).Scan(&ref, &data, &s.Body)
	if err != nil {
		return s, "", err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, "", fmt.Errorf("%w: decode a source: %w", ErrDamaged, err)
	}
	return s, ref, nil
}

// Get returns the source with a ref, with at most limit characters of its body, and whether that is less than all of it.
func (ix *Index) Get(ctx context.Context, ref string, limit int) (s Source, truncated bool, err error) {
	err = ix.within(ctx, "read the memory index", func(tx *sql.Tx) error {
		s, _, err = read(ctx, tx, "ref = ?", ref)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return s, false, &state.Error{Code: ledger.CodeNotFound, Param: "source_ref",
			Message: fmt.Sprintf("no memory has the source_ref %.80q", ref),
			Hint:    "search again and copy the source_ref of a result"}
	}
	s.Body, truncated = cut(s.Body, limit)
	return s, truncated, err
}

// Count returns how many sources the index has.
func (ix *Index) Count(ctx context.Context) (n int, err error) {
	err = ix.db.QueryRowContext(ctx, "SELECT count(*) FROM sources").Scan(&n)
	return n, failed("read the memory index", err)
}

// cut is at most so many characters of a text, and whether it has more.
func cut(text string, characters int) (string, bool) {
	for at := range text {
		if characters == 0 {
			return text[:at], true
		}
		characters--
	}
	return text, false
}

// snippet is the part of a text around the first place that has one of the terms.
func snippet(text string, terms []string) string {
	at := len(text)
	folded := strings.ToLower(text)
	for _, term := range terms {
		if found := strings.Index(folded, strings.Trim(term, `"*`)); found >= 0 {
			at = min(at, found)
		}
	}
	if at == len(text) || len(folded) != len(text) { // a stem or another form of a word is found, or places do not fit
		at = 0
	}
	begin := at
	for range maxSnippet / 3 {
		_, size := utf8.DecodeLastRuneInString(text[:begin])
		begin -= size
	}
	part, more := cut(text[begin:], maxSnippet)
	if begin > 0 {
		part = "…" + part
	}
	if more {
		part += "…"
	}
	return strings.Join(strings.Fields(part), " ")
}
