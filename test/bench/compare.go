package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// subject is one of the things that are compared. sample does the job once and
// returns how long its parts took, always in the same order.
type subject struct {
	name   string
	sample func(ctx context.Context) ([]time.Duration, error)
}

// plan says how the subjects take turns: in every round each of them gives
// samples, block by block.
type plan struct {
	rounds  int
	samples int // of each subject in a round
	block   int // samples in a row before it is the next one's turn
}

// medians holds, for one subject, the median of each part in each round:
// [part][round].
type medians [][]time.Duration

// compare runs the subjects in turns, after one uncounted sample of each.
func compare(ctx context.Context, p plan, subjects ...subject) ([]medians, error) {
	out := make([]medians, len(subjects))
	for _, s := range subjects {
		if _, err := s.run(ctx, 1); err != nil {
			return nil, err
		}
	}
	for range p.rounds {
		taken := make([]medians, len(subjects)) // [part][sample] here
		for done := 0; done < p.samples; done += p.block {
			for i, s := range subjects {
				parts, err := s.run(ctx, min(p.block, p.samples-done))
				if err != nil {
					return nil, err
				}
				taken[i] = join(taken[i], parts)
			}
		}
		for i, parts := range taken {
			for part, samples := range parts {
				out[i] = join(out[i], nil, part+1)
				out[i][part] = append(out[i][part], median(samples))
			}
		}
	}
	return out, nil
}

// run takes n samples in a row.
func (s subject) run(ctx context.Context, n int) (medians, error) {
	var parts medians
	for range n {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		took, err := s.sample(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		for i, d := range took {
			parts = join(parts, nil, i+1)
			parts[i] = append(parts[i], d)
		}
	}
	return parts, nil
}

// join appends the samples of more to m, which has at least the given number of
// parts afterwards.
func join(m, more medians, parts ...int) medians {
	for _, n := range append(parts, len(more)) {
		for len(m) < n {
			m = append(m, nil)
		}
	}
	for i, samples := range more {
		m[i] = append(m[i], samples...)
	}
	return m
}

// of returns the median over the rounds of one part.
func (m medians) of(part int) time.Duration { return median(m[part]) }

// ratio returns the median over the rounds of ours to floor, within each round.
func ratio(ours, floor []time.Duration) float64 {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = float64(ours[i]) / float64(floor[i])
	}
	return median(ratios)
}

// median returns the middle value of a list that is not empty, the mean of the
// two middle ones when their number is even.
func median[T time.Duration | float64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}
