package recall

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of what a search looks at, so that one for a word of every source is as fast as one for a rare word: bm25() of
// FTS5 reads all rows of a word.
const (
	maxCandidates = 200  // of a term, the newest
	maxCounted    = 4096 // of all sources the newest, in which it is counted how many have a term
	maxLooked     = 4096 // characters of a body, in which it is counted how often that has a term
)

// Parameters of BM25.
const (
	saturation  = 1.2
	lengthShare = 0.75
	titleWeight = 3 // of a term in a title, against one in a body
)

// candidate is a source that has terms of a query.
type candidate struct {
	length int   // of its body, in bytes
	times  []int // by term: how often it has it
}

// scorer finds the candidates of a query.
type scorer struct {
	ctx   context.Context
	tx    *sql.Tx
	query Query
	terms []string
	found map[int64]*candidate // by id
}

// scored are the ids of what has any of the terms, with their scores: BM25 over the terms that a source has. A common
// term counts for the newest of its sources alone, so one query asks for all the terms together, where a common one
// says something of older sources.
// Rarest are the terms in another order.
func scored(ctx context.Context, tx *sql.Tx, q Query, terms []string) (scores map[int64]float64, rarest []string,
	err error) {
	s := scorer{ctx: ctx, tx: tx, query: q, terms: terms, found: make(map[int64]*candidate)}
	all := make([]int, len(terms))
	for i, term := range terms {
		all[i] = i
		if err := s.find(term, all[i:i+1]); err != nil {
			return nil, nil, err
		}
	}
	if len(terms) > 1 {
		if err := s.find(strings.Join(terms, " AND "), all); err != nil {
			return nil, nil, err
		}
	}
	weights, err := s.weights()
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	for _, i := range all {
		rarest = append(rarest, terms[i])
	}
	return s.scores(weights), rarest, err
}

// find adds the newest sources that an expression of FTS5 finds, which have the terms at some places.
func (s *scorer) find(expression string, places []int) error {
	rows, err := s.tx.QueryContext(s.ctx, `SELECT id, octet_length(sources.title), octet_length(sources.body),
		sources.title || substr(sources.body, 1, ?) FROM terms CROSS JOIN sources ON sources.id = terms.rowid
		WHERE terms MATCH ? AND (? OR workspace_id IN ('', ?)) ORDER BY terms.rowid DESC LIMIT ?`,
		maxLooked, expression, s.query.All, s.query.WorkspaceID, maxCandidates)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var title, length int
		var text string
		if err := rows.Scan(&id, &title, &length, &text); err != nil {
			return err
		}
		c := s.found[id]
		if c == nil {
			c = &candidate{length: length, times: make([]int, len(s.terms))}
			s.found[id] = c
		}
		title = min(title, len(text))
		head, body := strings.ToLower(text[:title]), strings.ToLower(text[title:])
		for _, i := range places { // at least once: it may be in another form, or after what is looked at
			c.times[i] = max(1, titleWeight*occurrences(head, s.terms[i])+occurrences(body, s.terms[i]))
		}
	}
	return rows.Err()
}

// weights are those of the terms: the fewer sources have a term, the more it counts against others. A table of FTS5 has
// the ids of all sources in few pages.
func (s *scorer) weights() ([]float64, error) {
	if len(s.terms) == 1 {
		return []float64{1}, nil
	}
	var sources, since int64
	err := s.tx.QueryRowContext(s.ctx, "SELECT iif(since, ?1, (SELECT count(*) FROM terms_docsize)), coalesce(since, 0) "+
		"FROM (SELECT (SELECT id FROM terms_docsize ORDER BY id DESC LIMIT 1 OFFSET ?1 - 1) AS since)", maxCounted).
		Scan(&sources, &since)
	weights := make([]float64, len(s.terms))
	for i, term := range s.terms {
		var have int64
		if err == nil {
			err = s.tx.QueryRowContext(s.ctx, "SELECT count(*) FROM terms WHERE terms MATCH ? AND rowid >= ?", term,
				since).Scan(&have)
		}
		weights[i] = math.Log1p((float64(sources-have) + 0.5) / (float64(have) + 0.5))
	}
	return weights, err
}

// scores are those of the candidates, by their ids.
func (s *scorer) scores(weights []float64) map[int64]float64 {
	scores, total := make(map[int64]float64, len(s.found)), 1
	for _, c := range s.found {
		total += c.length
	}
	usual := float64(total) / float64(len(s.found))
	for id, c := range s.found {
		rest := saturation * (1 - lengthShare + lengthShare*float64(c.length)/usual)
		for i, weight := range weights {
			times := float64(c.times[i])
			scores[id] += weight * times * (saturation + 1) / (times + rest)
		}
	}
	return scores
}

// occurrences is how often a text in lower case has a term.
func occurrences(text, term string) (n int) {
	for at := place(text, term, 0); at >= 0; at = place(text, term, at+len(wordOf(term))) {
		n++
	}
	return n
}

// place is where a text in lower case has a term, from some place on: where a word begins, if its words have spaces
// between them. It is negative for nowhere.
func place(text, term string, from int) int {
	term = wordOf(term)
	first, _ := utf8.DecodeRuneInString(term)
	for {
		next := strings.Index(text[from:], term)
		if next < 0 {
			return next
		}
		from += next
		before, _ := utf8.DecodeLastRuneInString(text[:from])
		if isCJK(first) || isCJK(before) || !isPart(before) {
			return from
		}
		from += len(term)
	}
}
