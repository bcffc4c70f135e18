package recall

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOccurrences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, term string
		want       int
	}{
		{"", `"port"`, 0}, {"port", `"port"`, 1}, {"port ports port-forward", `"port"`, 3},
		{"a report on support", `"port"`, 0},
		{"portport", `"port"`, 1}, {"用port升级", `"port"`, 1}, {"éport port", `"port"`, 1}, {"升级 后 升级升级", `"升级"`, 3},
		{"v升级", `"升级"`, 1}, {"升级 升 降", `"升"*`, 2},
	} {
		if got := occurrences(c.text, c.term); got != c.want {
			t.Errorf("%q has %s %d times, not %d", c.text, c.term, got, c.want)
		}
	}
}

// TestWhatHasATermMoreComesFirst compares sources that have a word once with one that differs in one thing.
func TestWhatHasATermMoreComesFirst(t *testing.T) {
	t.Parallel()
	once := brief(1, "the port is open, and the rest is as it was before")
	often := brief(2, "the port is open, and the port is as it was before")
	short := brief(3, "the port is open")
	titled := brief(4, once.Body)
	titled.Title = "port"
	for name, better := range map[string]Source{"more often": often, "in a shorter text": short, "in the title": titled} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ix := open(t, Options{})
			better.UpdatedAt = once.UpdatedAt.Add(-time.Minute) // so that its age does not explain it
			put(t, ix, once, better)
			if got := ids(search(t, ix, Query{Text: "port"})); !slices.Equal(got, []string{better.ID, once.ID}) {
				t.Errorf("found %v", got)
			}
		})
	}
}

// TestACommonWordDoesNotHideARareOne has a word in all sources of an index, which are more than are counted, and
// another one in the oldest alone.
func TestACommonWordDoesNotHideARareOne(t *testing.T) {
	t.Parallel()
	ix := open(t, Options{})
	all := []Source{brief(1, "the gateway is in Oslo, says the team"), brief(2, "the gateway is in Lagos, says the team")}
	for n := len(all) + 1; n <= maxCounted+100; n++ {
		all = append(all, brief(n, fmt.Sprint("the the the worker ", n)))
	}
	put(t, ix, all...)
	now := all[len(all)-1].UpdatedAt
	got := search(t, ix, Query{Text: "the gateway", Limit: 3, Now: now})
	if found := ids(got); !slices.Contains(found[:2], "brf_1") || !slices.Contains(found[:2], "brf_2") ||
		got[2].Score*10 > got[1].Score {
		t.Errorf("found %v with scores %v, %v, %v", found, got[0].Score, got[1].Score, got[2].Score)
	}
	if found := ids(search(t, ix, Query{Text: "the", Limit: 3, Now: now})); found[0] != all[len(all)-1].ID {
		t.Errorf("the common word finds %v", found)
	}
}

// TestTheSnippetIsAroundTheRarestTerm finds a long text by a word that begins each of its lines and one that is in one.
func TestTheSnippetIsAroundTheRarestTerm(t *testing.T) {
	t.Parallel()
	ix := open(t, Options{})
	var lines strings.Builder
	for n := range 200 {
		fmt.Fprintf(&lines, "line %d of the report\n", n)
	}
	put(t, ix, brief(1, lines.String()), brief(2, "a line"), brief(3, "no line"))
	for query, want := range map[string]string{"line 123": "line 123 of", "123 line": "line 123 of", "port 150": "line 150 of"} {
		if found := search(t, ix, Query{Text: query}); !strings.Contains(found[0].Snippet, want) {
			t.Errorf("%q shows %q", query, found[0].Snippet)
		}
	}
}
