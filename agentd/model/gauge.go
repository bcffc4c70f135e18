package model

// Gauge corrects estimates of one conversation by the provider's counts. The zero
// value corrects nothing. It is not safe for concurrent use.
type Gauge struct {
	scale float64
}

// Bounds of a correction: a provider's count may be anything.
const (
	minScale = 0.25
	maxScale = 4
)

// NewGauge returns a gauge that multiplies estimates by scale; 0 is 1.
func NewGauge(scale float64) Gauge { return Gauge{scale: scale} }

// Scale returns what estimates are multiplied by, 0 for nothing.
func (g *Gauge) Scale() float64 { return g.scale }

// Report records the provider's count of input tokens for a request of the given
// estimate. The latest report is used.
func (g *Gauge) Report(estimated int, counted int64) {
	if estimated > 0 && counted > 0 {
		g.scale = min(max(float64(counted)/float64(estimated), minScale), maxScale)
	}
}

// Tokens returns the corrected estimate.
func (g *Gauge) Tokens(estimated int) int {
	if g.scale == 0 {
		return estimated
	}
	return int(g.scale * float64(estimated))
}

// Estimated returns the estimate for a provider's number of tokens: the inverse of
// Tokens.
func (g *Gauge) Estimated(tokens int) int {
	if g.scale == 0 {
		return tokens
	}
	return int(float64(tokens) / g.scale)
}
