package recall

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// open opens an index in a directory of the test, which closes it.
func open(t testing.TB, opts Options) *Index {
	t.Helper()
	if opts.Path == "" {
		opts.Path = filepath.Join(t.TempDir(), "memory.sqlite3")
	}
	if opts.Key == nil {
		opts.Key = []byte("a key of refs")
	}
	ix, err := Open(t.Context(), opts)
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := ix.Close(); err != nil {
			t.Error(err)
		}
	})
	return ix
}

func put(t testing.TB, ix *Index, sources ...Source) {
	t.Helper()
	expect.NoError(t, ix.Put(t.Context(), Batch{Put: sources}))
}

func brief(n int, body string) Source {
	return Source{Kind: "brief", ID: fmt.Sprint("brf_", n), Position: int64(n), Body: body,
		UpdatedAt: began.Add(time.Duration(n) * time.Minute)}
}

func search(t testing.TB, ix *Index, q Query) []Match {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 10
	}
	if q.Now.IsZero() {
		q.Now = began
	}
	found, err := ix.Search(t.Context(), q)
	if err != nil {
		t.Fatalf("search %.100q: %v", q.Text, err)
	}
	return found
}

func ids(found []Match) (list []string) {
	for _, m := range found {
		list = append(list, m.ID)
	}
	return list
}

func TestSearchFindsWords(t *testing.T) {
	t.Parallel()
	ix := open(t, Options{})
	put(t, ix, brief(1, "We deployed the database migration on Friday."), brief(2, "缓存服务器升级完成，小猫也很高兴。"),
		brief(3, "把Redis集群从 v6 升级到 v7，迁移没有停机"), brief(4, "Résumé of the café meeting, ＡＰＩ version １２"),
		brief(5, "サーバーの再起動が必要です"), brief(6, "데이터베이스 백업"))
	for query, want := range map[string]string{
		"deploy": "brf_1", "MIGRATIONS": "brf_1", "服务器": "brf_2", "猫": "brf_2", "小猫": "brf_2", "兴": "brf_2",
		"redis集群": "brf_3", "Redis 升级": "brf_3", "resume cafe": "brf_4", "api 12": "brf_4", "サーバー": "brf_5",
		"再起動": "brf_5", "백업": "brf_6",
	} {
		if found := ids(search(t, ix, Query{Text: query})); len(found) == 0 || found[0] != want {
			t.Errorf("%q finds %v, not %s first", query, found, want)
		}
	}
	for _, query := range []string{"absent", "狗", "!!!", "🚀"} {
		if found := ids(search(t, ix, Query{Text: query})); len(found) > 0 {
			t.Errorf("%q finds %v", query, found)
		}
	}
}

func TestSearchKeepsToTheWorkspace(t *testing.T) {
	t.Parallel()
	ix := open(t, Options{})
	own, here, there := brief(1, "the token"), brief(2, "the token"), brief(3, "the token")
	here.WorkspaceID, there.WorkspaceID = "ws_here", "ws_there"
	put(t, ix, own, here, there)
	for _, c := range []struct {
		query Query
		want  []string
	}{
		{Query{}, []string{"brf_1"}},
		{Query{WorkspaceID: "ws_here"}, []string{"brf_2", "brf_1"}},
		{Query{WorkspaceID: "ws_here", All: true}, []string{"brf_3", "brf_2", "brf_1"}},
		{Query{All: true, Limit: 1}, []string{"brf_3"}},
	} {
		c.query.Text = "token"
		if found := ids(search(t, ix, c.query)); !slices.Equal(found, c.want) {
			t.Errorf("%+v finds %v, not %v", c.query, found, c.want)
		}
	}
}

func TestNewerSourcesCountForMore(t *testing.T) {
	t.Parallel()
	ix := open(t, Options{})
	old, recent := brief(1, "the port is 8080"), brief(2, "the port is 9090")
	recent.UpdatedAt = began.Add(365 * 24 * time.Hour)
	put(t, ix, recent, old)
	found := search(t, ix, Query{Text: "port", Now: recent.UpdatedAt})
	if got := ids(found); !slices.Equal(got, []string{"brf_2", "brf_1"}) || found[0].Score <= found[1].Score {
		t.Errorf("found %+v", found)
	}
}

func TestGetReturnsTheExactText(t *testing.T) {
	t.Parallel()
	ix := open(t, Options{})
	body := "缓存 \x1b[31m FOO\n" + strings.Repeat("字", 300)
	put(t, ix, brief(1, body))
	found := search(t, ix, Query{Text: "foo"})
	for _, c := range []struct {
		limit     int
		want      string
		truncated bool
	}{{1000, body, false}, {len([]rune(body)), body, false}, {2, "缓存", true}} {
		s, truncated, err := ix.Get(t.Context(), found[0].Ref, c.limit)
		if err != nil || s.Body != c.want || truncated != c.truncated || s.ID != "brf_1" ||
			!s.UpdatedAt.Equal(found[0].UpdatedAt) {
			t.Errorf("Get(%d): %+v, truncated %v, %v", c.limit, s, truncated, err)
		}
	}
	for _, ref := range []string{"", "brf_1", "memory/self.md", refPrefix, found[0].Ref + "a", strings.Repeat("x", 1<<20)} {
		_, _, err := ix.Get(t.Context(), ref, 10)
		if !state.IsCode(err, ledger.CodeNotFound) {
			t.Errorf("Get(%.20q): %v", ref, err)
		}
	}
}

func TestRefsFollowFromTheKey(t *testing.T) {
	t.Parallel()
	a, b, c := open(t, Options{}), open(t, Options{Origin: "another"}), open(t, Options{Key: []byte("another key")})
	k := Key{"brief", "brf_1"}
	if a.ref(k) != b.ref(k) || a.ref(k) == c.ref(k) || a.ref(k) == a.ref(Key{"brie", "f\x00brf_1"}) {
		t.Error("a ref does not follow from key, kind and id alone")
	}
}

func TestPutReplacesAndRemoves(t *testing.T) {
	t.Parallel()
	ix := open(t, Options{})
	put(t, ix, brief(1, "alpha"), brief(2, "beta"), brief(3, "gamma"))
	changed := brief(2, "delta")
	changed.UpdatedAt = began.Add(time.Hour)
	err := ix.Put(t.Context(), Batch{Put: []Source{changed}, Remove: []Key{{"brief", "brf_3"}, {"brief", "absent"}},
		Oldest: map[string]int64{"brief": 2, "episode": 9}, Cursor: "42"})
	expect.NoError(t, err)
	found := ids(search(t, ix, Query{Text: "alpha beta gamma delta"}))
	cursor, err := ix.Cursor(t.Context())
	if !slices.Equal(found, []string{"brf_2"}) || cursor != "42" || err != nil {
		t.Errorf("found %v at the cursor %q, %v", found, cursor, err)
	}
}

func TestOpenReplacesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, path string){
		"not a database": func(t *testing.T, path string) { write(t, path, []byte("hello, this is no database at all")) },
		"empty":          func(t *testing.T, path string) { write(t, path, nil) },
		"damaged": func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			expect.NoError(t, err)
			write(t, path, append(data[:100], bytes.Repeat([]byte{0xa5}, len(data)-100)...))
		},
		"cut": func(t *testing.T, path string) {
			expect.NoError(t, os.Truncate(path, 4096))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "memory.sqlite3")
			ix, err := Open(t.Context(), Options{Path: path, Key: []byte("k")})
			expect.NoError(t, err)
			put(t, ix, brief(1, "alpha"))
			expect.NoError(t, ix.Close())
			spoil(t, path)
			ix = open(t, Options{Path: path, Key: []byte("k")})
			put(t, ix, brief(2, "alpha"))
			if found := ids(search(t, ix, Query{Text: "alpha"})); !slices.Equal(found, []string{"brf_2"}) {
				t.Errorf("found %v", found)
			}
		})
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	expect.NoError(t, os.WriteFile(path, data, 0o600))
}

func TestOpenKeepsAnIndexOfTheSameOrigin(t *testing.T) {
	t.Parallel()
	opts := Options{Path: filepath.Join(t.TempDir(), "memory.sqlite3"), Origin: "one", Key: []byte("k")}
	for _, c := range []struct {
		origin string
		want   int
	}{{"one", 1}, {"one", 1}, {"two", 0}} {
		opts.Origin = c.origin
		ix, err := Open(t.Context(), opts)
		expect.NoError(t, err)
		if c.want == 1 {
			put(t, ix, brief(1, "alpha"))
		}
		if found := search(t, ix, Query{Text: "alpha"}); len(found) != c.want {
			t.Errorf("an index of %s finds %v", c.origin, ids(found))
		}
		expect.NoError(t, ix.Close())
	}
	info, err := os.Stat(opts.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
}

func TestDamageIsNamed(t *testing.T) {
	t.Parallel()
	ix := open(t, Options{})
	put(t, ix, brief(1, "alpha"))
	if _, err := ix.db.Exec("UPDATE sources SET source = '{'"); err != nil {
		t.Fatal(err)
	}
	if _, err := ix.Search(t.Context(), Query{Text: "alpha", Limit: 1}); !errors.Is(err, ErrDamaged) {
		t.Errorf("the error is %v", err)
	}
}

// TestOneMadeAnewFindsTheSame plays random changes, and compares the index with one that was made of what is left.
func TestOneMadeAnewFindsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		expect.NoError(t, err)
		grown, err := Open(t.Context(), Options{Path: filepath.Join(dir, "grown"), Key: []byte("k")})
		expect.NoError(t, err)
		defer grown.Close()
		left := make(map[int]Source)
		for range rapid.IntRange(1, 20).Draw(r, "changes") {
			n := rapid.IntRange(1, 8).Draw(r, "n")
			b := Batch{Oldest: map[string]int64{}}
			switch rapid.IntRange(0, 3).Draw(r, "change") {
			case 0:
				b.Remove = []Key{{"brief", brief(n, "").ID}}
				delete(left, n)
			case 1:
				b.Oldest["brief"] = int64(n)
				for i := range n {
					delete(left, i)
				}
			default:
				s := brief(n, strings.Join(rapid.SliceOfN(rapid.SampledFrom(strings.Fields(
					"alpha beta gamma 数据库 升级 迁移")), 0, 8).Draw(r, "words"), " "))
				s.UpdatedAt = began.Add(time.Duration(rapid.IntRange(0, 3).Draw(r, "minute")) * time.Minute)
				b.Put, left[n] = []Source{s}, s
			}
			expect.NoError(r, grown.Put(t.Context(), b))
		}
		anew, err := Open(t.Context(), Options{Path: filepath.Join(dir, "anew"), Key: []byte("k")})
		expect.NoError(t, err)
		defer anew.Close()
		for _, s := range left {
			put(t, anew, s)
		}
		for _, text := range []string{"alpha", "beta gamma", "数据库迁移", "升"} {
			one, two := search(t, grown, Query{Text: text}), search(t, anew, Query{Text: text})
			if fmt.Sprintf("%+v", one) != fmt.Sprintf("%+v", two) {
				r.Fatalf("%q finds\n%+v\nand made anew\n%+v", text, one, two)
			}
		}
	})
}

func FuzzSearch(f *testing.F) {
	for _, text := range []string{"a", `"`, `""`, "a AND", "NOT b", "NEAR(a b, 3)", "body : x", "^x*", "a* OR (b", "-",
		"'; DROP TABLE",
		strings.Repeat("word ", 20_000), strings.Repeat("字", 50_000), "🚀👩‍👩‍👧‍👦", "שלום \u202e עולם", "\xed\xa0\x80", "\x00a\x00", "\u0301",
		"a\u0301", "ﬁ", "ß", "İ", "\U0010ffff", "٣", "กำ", "\u200d\u200b", "ー", "〇", "㌔"} {
		f.Add(text)
	}
	ix := open(f, Options{})
	put(f, ix, brief(1, "some words of a body"))
	f.Fuzz(func(t *testing.T, text string) {
		found, err := ix.Search(t.Context(), Query{Text: text, Limit: 5, Now: began})
		if state.IsCode(err, CodeInvalidQuery) && strings.TrimSpace(text) == "" {
			return
		}
		if err != nil {
			t.Fatalf("search %.200q: %v", text, err)
		}
		for _, m := range found {
			if len([]rune(m.Snippet)) > maxSnippet+2 {
				t.Fatalf("the snippet is %q", m.Snippet)
			}
		}
		if terms := queryTerms(text); len(terms) > maxTerms {
			t.Fatalf("%d terms", len(terms))
		}
	})
}

// FuzzIndexed checks that a text is found by each of its words.
func FuzzIndexed(f *testing.F) {
	for _, text := range []string{"plain words", "把Redis升级", "naïve café", "ﬁ ß İ", "字", "🚀 go"} {
		f.Add(text)
	}
	ix := open(f, Options{})
	f.Fuzz(func(t *testing.T, text string) {
		put(t, ix, brief(1, text))
		s, truncated, err := ix.Get(t.Context(), ix.ref(Key{"brief", "brf_1"}), len(text)+1)
		if err != nil || truncated || s.Body != text {
			t.Fatalf("the body of %q is %q, %v", text, s.Body, err)
		}
	})
}
