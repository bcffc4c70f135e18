package rules

import "time"

// Bounds of retries of a message for which no turn can be begun.
const (
	MaxTries   = 12
	firstDelay = time.Second
	maxDelay   = 5 * time.Minute
)

// Backoff is how long a message is left alone after its n-th failure in a row,
// n ≥ 1: 1 s, 2 s, 4 s … at most 5 min, less up to a fifth of it by random, in
// [0,1), so that many agents do not try at once.
func Backoff(n int, random float64) time.Duration {
	d := maxDelay
	if n < 10 { // 2⁹ s are more than maxDelay
		d = min(firstDelay<<max(n-1, 0), maxDelay)
	}
	return d - time.Duration(random*float64(d)/5)
}
