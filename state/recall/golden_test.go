package recall

import (
	"bytes"
	"fmt"
	"holon/test/expect"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Words of the records that are made. Each is in many of them, so that only several words together name one.
var (
	things = strings.Fields("invoice cache gateway worker tenant ledger token cluster mirror shard router bucket " +
		"发票 缓存 网关 队列 租户 账本 令牌 集群 镜像 分片 路由 存储桶")
	acts = strings.Fields("migrated renamed throttled archived restored audited duplicated rotated paused merged " +
		"迁移 重命名 限流 归档 恢复 审计 复制 轮换 暂停 合并")
	places = strings.Fields("Oslo Lagos Quito Perth Turin Kyoto Dakar Lima 上海 北京 成都 广州 深圳 西安 杭州 南京")
	filler = strings.Fields("the team found that after a while it was still slow and we agreed to look again " +
		"我们 后来 发现 仍然 需要 继续 观察 已经 确认")
)

// record is a text and what is asked to find it.
type record struct{ id, text, query string }

// records are 2,000 texts, and 200 queries of which each has one right answer: those of testdata, which people wrote,
// and those of a generator.
func records(t *testing.T) (all []record, queries [][2]string) {
	t.Helper()
	for _, row := range rows(t, "records.txt") {
		all = append(all, record{id: row[0], text: row[1]})
	}
	for _, row := range rows(t, "queries.txt") {
		queries = append(queries, [2]string{row[0], row[1]})
	}
	rng := rand.New(rand.NewPCG(37, 1)) //nolint:gosec // the same records each time
	seen := make(map[string]bool)
	for len(all) < 2000 {
		thing, act, place := things[rng.IntN(len(things))], acts[rng.IntN(len(acts))], places[rng.IntN(len(places))]
		if seen[thing+act+place] {
			continue
		}
		seen[thing+act+place] = true
		words := []string{thing, act, place}
		for range 5 + rng.IntN(20) {
			words = append(words, filler[rng.IntN(len(filler))])
		}
		rng.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		r := record{id: fmt.Sprint("made_", len(all)), text: strings.Join(words, " ") + "."}
		query := []string{strings.ToUpper(place), act, filler[rng.IntN(len(filler))], thing}
		rng.Shuffle(len(query), func(i, j int) { query[i], query[j] = query[j], query[i] })
		r.query = strings.Join(query, " ")
		all = append(all, r)
	}
	for _, i := range rng.Perm(len(all)) {
		if len(queries) < 200 && all[i].query != "" {
			queries = append(queries, [2]string{all[i].id, all[i].query})
		}
	}
	return all, queries
}

// rows are the lines of a file in testdata, cut at the first tab.
func rows(t *testing.T, name string) (list [][2]string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	expect.NoError(t, err)
	for line := range bytes.Lines(data) {
		id, text, _ := strings.Cut(strings.TrimSpace(string(line)), "\t")
		list = append(list, [2]string{id, text})
	}
	return list
}

// TestTheRightRecordIsAmongTheFirstFive asks 200 queries over 2,000 records in English, Chinese and both, and asks them
// again of an index that was made in another order.
func TestTheRightRecordIsAmongTheFirstFive(t *testing.T) {
	t.Parallel()
	all, queries := records(t)
	if len(all) != 2000 || len(queries) != 200 {
		t.Fatalf("%d records and %d queries", len(all), len(queries))
	}
	sources := make([]Source, 0, len(all))
	for i, r := range all {
		sources = append(sources, Source{Kind: "brief", ID: r.id, Body: r.text,
			UpdatedAt: began.Add(time.Duration(i*7919%2000) * time.Hour)})
	}
	grown, anew := open(t, Options{}), open(t, Options{})
	for page := range slices.Chunk(sources, 50) {
		put(t, grown, page...)
	}
	slices.Reverse(sources)
	put(t, anew, sources...)
	for _, q := range queries {
		query := Query{Text: q[1], Limit: 5, Now: began.Add(2000 * time.Hour)}
		found := search(t, grown, query)
		if !slices.Contains(ids(found), q[0]) {
			t.Errorf("%q finds %v, and not %s", q[1], ids(found), q[0])
		}
		if again := search(t, anew, query); fmt.Sprint(again) != fmt.Sprint(found) {
			t.Errorf("%q finds %v, and of an index made anew %v", q[1], ids(found), ids(again))
		}
	}
}
