package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"holon/state/recall"
	"holon/test/load"
)

// Sizes of the indexes of P21.
const (
	memories     = 100_000
	manyMemories = 1_000_000
	memoryPage   = 200 // as a feed puts them
	searches     = 500 // a round
	searchRounds = 5
)

// measureSearch is P21: what a search in an agent's memory takes, what a memory adds to the index, and how an index is
// made anew.
func measureSearch(ctx context.Context, r *rig) []row {
	return slices.Concat(r.searchIn(ctx, r.samples(memories, memories/10), 5),
		r.searchIn(ctx, r.samples(manyMemories, memories/5), 30))
}

// searchIn measures an index of n memories of 40 words, whose words are as frequent as those of a language. goal is
// that of a search, in milliseconds.
func (r *rig) searchIn(ctx context.Context, n int, goal float64) []row {
	path := filepath.Join(r.newDir(), "memory.sqlite3")
	ix := load.Must(recall.Open(ctx, recall.Options{Path: path, Key: []byte("bench")}))
	r.later(ix.Close)
	rng := rand.New(rand.NewPCG(21, 1)) //nolint:gosec // the same words each time
	zipf := rand.NewZipf(rng, 1.1, 8, 50_000)
	word := func() string { return "w" + strconv.FormatUint(zipf.Uint64(), 36) }
	before, began, at := load.Resident(os.Getpid()), time.Now(), time.Now().Add(-time.Duration(n)*time.Second)
	most := before
	for put := 0; put < n; put += memoryPage {
		var b recall.Batch
		for i := range memoryPage {
			words := make([]string, 40)
			for w := range words {
				words[w] = word()
			}
			at = at.Add(time.Second)
			b.Put = append(b.Put, recall.Source{Kind: "brief", ID: strconv.Itoa(put + i), Title: words[0],
				Body: strings.Join(words, " "), UpdatedAt: at})
		}
		load.Check(ix.Put(ctx, b))
		most = max(most, load.Resident(os.Getpid()))
	}
	rate := float64(n) / time.Since(began).Seconds()
	var usual, tail, floor []float64
	for range searchRounds {
		took, computed := make([]float64, searches), make([]float64, searches)
		for i := range searches {
			query := recall.Query{Text: word(), Limit: 10, Now: at}
			took[i] = milliseconds(func() { load.Must(ix.Search(ctx, query)) })
			computed[i] = milliseconds(compute)
		}
		slices.Sort(took)
		slices.Sort(computed)
		usual, tail = append(usual, took[searches/2]), append(tail, took[searches*99/100])
		floor = append(floor, computed[searches*99/100])
	}
	size := load.Must(os.Stat(path)).Size()
	of := fmt.Sprintf(", of %d memories", n)
	return []row{
		versus("P21", "search for one word, p99"+of, "SHA-256 of 2 MiB between the searches, p99", unitMS, tail, floor).
			absoluteGoal(goal),
		{ID: "P21", What: "search for one word, median" + of, Unit: unitMS, Ours: median(usual)},
		{ID: "P21", What: "the index made anew, memories" + of, Unit: unitRate, Ours: rate},
		{ID: "P21", What: "the index, bytes a memory" + of, Unit: unitCount, Ours: float64(size) / float64(n)},
		row{ID: "P21", What: "memory of the process while it is made" + of, Unit: unitMB,
			Ours: (most - before) / 1e6}.absoluteGoal(64),
	}
}

// compute takes about as long as a search and waits for nothing, so its p99 is what the machine adds to each.
func compute() { sha256.Sum256(make([]byte, 2<<20)) }

func milliseconds(f func()) float64 {
	began := time.Now()
	f()
	return float64(time.Since(began).Microseconds()) / 1000
}
