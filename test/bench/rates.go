package main

import (
	"context"
	"fmt"
)

// load is one of the things that are compared under load. run does the job once
// and returns its figures, always in the same order.
type load struct {
	name string
	run  func(ctx context.Context) ([]float64, error)
}

// figures holds what a load gave: [figure][round].
type figures [][]float64

// compareLoads runs the loads in turns, one run of each a round, after one
// uncounted run of each.
func compareLoads(ctx context.Context, rounds int, loads ...load) ([]figures, error) {
	out := make([]figures, len(loads))
	for round := range rounds + 1 {
		for i, l := range loads {
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			got, err := l.run(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.name, err)
			}
			if round == 0 {
				continue
			}
			for len(out[i]) < len(got) {
				out[i] = append(out[i], nil)
			}
			for f, value := range got {
				out[i][f] = append(out[i][f], value)
			}
		}
	}
	return out, nil
}

// loaded is a row about one figure of what compareLoads measured.
func loaded(id, what, against, unit string, ours, floor figures, figure int) row {
	o, f := ours[figure], floor[figure]
	ratios := make([]float64, len(o))
	for i := range o {
		ratios[i] = o[i] / f[i]
	}
	return row{ID: id, What: what, Against: against, Unit: unit, Floor: median(f), Ours: median(o),
		Ratio: median(ratios)}
}
