package patch

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	docs      = "../../../docs/reference/patch.md"
	tableFrom = "<!-- from the corpus: go test ./agentd/tools/patch -update -->\n"
	tableTo   = "<!-- end -->\n"
)

// TestTable keeps the table in docs/reference/patch.md what the corpus is.
func TestTable(t *testing.T) {
	list := corpus(t)
	if len(list) < 400 {
		t.Errorf("the corpus has only %d cases", len(list))
	}
	page, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), tableFrom)
	old, after, ok2 := strings.Cut(rest, tableTo)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", docs)
	}
	table := table(list)
	if table == old {
		return
	}
	if !*update {
		t.Fatalf("%s has another table than the corpus gives; run the tests with -update", docs)
	}
	if err := os.WriteFile(docs, []byte(before+tableFrom+table+tableTo+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

type row struct {
	class, mistake string
	cases, applied int
	tolerated      []string
	refused        []string
}

func table(list []*corpusCase) string {
	var rows []*row
	for _, c := range list {
		i := slices.IndexFunc(rows, func(r *row) bool { return r.class == c.class && r.mistake == c.mistake })
		if i < 0 {
			i, rows = len(rows), append(rows, &row{class: c.class, mistake: c.mistake})
		}
		r := rows[i]
		r.cases++
		if c.refused != "" {
			r.refused = append(r.refused, c.refused)
		} else {
			r.applied++
			r.tolerated = append(r.tolerated, c.tolerated...)
		}
	}
	classes := []string{"valid", "sloppy", "hostile"}
	slices.SortFunc(rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(slices.Index(classes, a.class), slices.Index(classes, b.class)),
			strings.Compare(a.mistake, b.mistake))
	})
	var b strings.Builder
	b.WriteString("| class | what it is about | cases | applied | reported as | refused | with " +
		"|\n|---|---|---|---|---|---|---|\n")
	var cases, applied int
	for _, r := range rows {
		cases, applied = cases+r.cases, applied+r.applied
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %s | %d | %s |\n", r.class, r.mistake, r.cases, r.applied,
			codes(r.tolerated), r.cases-r.applied, codes(r.refused))
	}
	fmt.Fprintf(&b, "| | **all** | **%d** | **%d** | | **%d** | |\n", cases, applied, cases-applied)
	return b.String()
}

// codes lists different words, as code.
func codes(words []string) string {
	words = slices.Compact(slices.Sorted(slices.Values(words)))
	if len(words) == 0 {
		return ""
	}
	return "`" + strings.Join(words, "`, `") + "`"
}
