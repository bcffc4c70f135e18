package main

import (
	"context"
	"slices"
	"time"

	"holon/test/load"
)

// subject is one of the things that are compared. sample does the job once and
// returns its figures, times in milliseconds or rates, always in the same order.
type subject struct {
	name   string
	sample func(ctx context.Context) []float64
}

// plan says how the subjects take turns: in every round each of them gives
// samples, block by block.
type plan struct {
	rounds  int
	samples int // of each subject in a round
	block   int // samples in a row before it is the next one's turn
}

// figures holds, for one subject, the median of each figure in each round: [figure][round].
type figures [][]float64

// compare runs the subjects in turns, after one uncounted sample of each.
func compare(ctx context.Context, p plan, subjects ...subject) []figures {
	out := make([]figures, len(subjects))
	for _, s := range subjects {
		s.take(ctx, 1)
	}
	for range p.rounds {
		taken := make([]figures, len(subjects)) // [figure][sample] here
		for done := 0; done < p.samples; done += p.block {
			for i, s := range subjects {
				for f, samples := range s.take(ctx, min(p.block, p.samples-done)) {
					taken[i] = taken[i].add(f, samples...)
				}
			}
		}
		for i, figures := range taken {
			for f, samples := range figures {
				out[i] = out[i].add(f, median(samples))
			}
		}
	}
	return out
}

func (s subject) take(ctx context.Context, n int) (all figures) {
	for range n {
		load.Check(context.Cause(ctx))
		var got []float64
		if err := load.Guard(func() { got = s.sample(ctx) }); err != nil {
			load.Failf("%s: %w", s.name, err)
		}
		for f, value := range got {
			all = all.add(f, value)
		}
	}
	return all
}

// add appends values to those of a figure, which may be the first.
func (f figures) add(figure int, values ...float64) figures {
	for len(f) <= figure {
		f = append(f, nil)
	}
	f[figure] = append(f[figure], values...)
	return f
}

// ratio returns the median over the rounds of ours to floor, within each round.
func ratio(ours, floor []float64) float64 {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i] / floor[i]
	}
	return median(ratios)
}

// median returns the middle value of a list that is not empty, the mean of the
// two middle ones when their number is even.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func timed(job func()) time.Duration {
	began := time.Now()
	job()
	return time.Since(began)
}

// laps times jobs one after the other, and returns the sum and each.
func laps(jobs ...func()) []float64 {
	all := []float64{0}
	for _, job := range jobs {
		took := ms(timed(job))
		all[0] += took
		all = append(all, took)
	}
	return all
}
