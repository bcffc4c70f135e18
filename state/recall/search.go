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

// maxSnippet bounds a snippet, in characters.
const maxSnippet = 240

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
		scores, rarest, err := scored(ctx, tx, q, terms)
		if err != nil {
			return err
		}
		matches = make([]Match, 0, min(q.Limit, len(scores)))
		for _, id := range best(scores, q) {
			m := Match{Score: scores[id]}
			if m.Source, m.Ref, err = read(ctx, tx, "id = ?", id); err != nil {
				return err
			}
			m.Snippet, m.Body = snippet(m.Body, rarest), ""
			matches = append(matches, m)
		}
		return nil
	})
	return matches, err
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
	err = tx.QueryRowContext(ctx, "SELECT ref, source, title, body FROM sources WHERE "+where, arg).Scan(&ref, &data,
		&s.Title, &s.Body)
	if err != nil {
		return s, "", err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, "", fmt.Errorf("%w: decode a source: %w", ErrDamaged, err)
	}
	return s, ref, nil
}

// Get returns the source with a ref, with at most limit characters of its body, and whether that is less than all of
// it.
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

// snippet is the part of a text around the first place that has a term: the first of the terms that it has.
func snippet(text string, terms []string) string {
	folded, begin := strings.ToLower(text), -1
	for _, term := range terms {
		if begin < 0 && len(folded) == len(text) { // else places do not fit
			begin = place(folded, term, 0)
		}
	}
	begin = max(0, begin) // a stem or another form of a word is found
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
