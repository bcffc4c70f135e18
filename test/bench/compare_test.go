package main

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"holon/test/expect"
	"holon/test/load"
)

// fixed is a subject that gives the listed times, one a sample, and writes down
// that it was asked.
func fixed(name string, order *strings.Builder, times ...float64) subject {
	n := 0
	return subject{name, func(context.Context) []float64 {
		order.WriteString(name)
		if n == len(times) {
			load.Failf("no more samples")
		}
		n++
		return []float64{times[n-1], 2 * times[n-1]}
	}}
}

func TestCompareTakesTurns(t *testing.T) {
	var order strings.Builder
	// The first of each is the uncounted one; then three rounds of four in blocks of two.
	a := fixed("a", &order, 1000, 1, 2, 3, 4, 10, 10, 10, 10, 5, 5, 5, 5)
	b := fixed("b", &order, 1000, 2, 2, 2, 2, 30, 30, 30, 30, 5, 5, 5, 5)
	got := compare(t.Context(), plan{rounds: 3, samples: 4, block: 2}, a, b)
	expect.Equal(t, "order", order.String(), "ab"+strings.Repeat("aabb", 6))
	// Rounds of a: 2.5, 10, 5; of b: 2, 30, 5.
	want := []figures{{{2.5, 10, 5}, {5, 20, 10}}, {{2, 30, 5}, {4, 60, 10}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	expect.Equal(t, "ratio", ratio(got[1][0], got[0][0]), 1)
}

func TestCompareReportsWhoFailed(t *testing.T) {
	var order strings.Builder
	err := load.Guard(func() {
		compare(t.Context(), plan{rounds: 3, samples: 1, block: 1}, fixed("floor", &order, 1, 1),
			fixed("ours", &order, 1, 1, 1, 1))
	})
	if err == nil || !strings.HasPrefix(err.Error(), "floor: ") {
		t.Errorf("error %v, want one of the floor", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = load.Guard(func() { compare(ctx, plan{rounds: 3, samples: 1, block: 1}, fixed("a", &order, 1)) })
	expect.ErrorIs(t, "error", err, context.Canceled)
}

func TestRatioIsWithinRounds(t *testing.T) {
	// The machine was ten times slower in the second round: no matter.
	floor, ours := []float64{10, 100, 10}, []float64{20, 210, 19}
	expect.Equal(t, "ratio", ratio(ours, floor), 2)
}

func TestGoals(t *testing.T) {
	for _, c := range []struct {
		row     row
		goal    string
		verdict string
	}{
		{row{Ratio: 1.2}.ratioGoal(1.2), "≤ 1.2×", "yes"},
		{row{Ratio: 1.21}.ratioGoal(1.2), "≤ 1.2×", "no"},
		{row{Ours: 20, Ratio: 9, Unit: unitMB}.absoluteGoal(20), "≤ 20 MB", "yes"},
		{row{Ours: 20.1, Ratio: 0.1, Unit: unitMB}.absoluteGoal(20), "≤ 20 MB", "no"},
		{row{Ratio: 9}, "", ""},
	} {
		if c.row.Goal != c.goal || c.row.Met != c.verdict {
			t.Errorf("%s %s, want %s %s", c.row.Goal, c.row.Met, c.goal, c.verdict)
		}
	}
}

func TestFlags(t *testing.T) {
	o, err := parse([]string{"-only", "p1, P16", "-rounds", "3"}, &strings.Builder{})
	if err != nil || strings.Join(o.only, " ") != "P1 P16" {
		t.Errorf("%v, %v", o.only, err)
	}
	for _, args := range [][]string{{"-only", "P99"}, {"-rounds", "2"}, {"-nope"}, {"P1"}} {
		if _, err := parse(args, &strings.Builder{}); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}
