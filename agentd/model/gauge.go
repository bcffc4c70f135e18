package model

// Gauge corrects estimates of one conversation by what its provider counted. The
// zero value corrects nothing. It is not safe for concurrent use.
type Gauge struct {
	scale float64
}

// Bounds of a correction: a provider's count may be anything.
const (
	minScale = 0.25
	maxScale = 4
)

// NewGauge returns a gauge of a model that has scale tokens where an estimate
// says one; 0 is 1.
func NewGauge(scale float64) Gauge { return Gauge{scale: scale} }

// Report takes in that a provider counted counted input tokens where Estimate
// said estimated. The latest report counts.
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

// Estimated returns the estimate that tokens of the provider are: Tokens in the
// other direction.
func (g *Gauge) Estimated(tokens int) int {
	if g.scale == 0 {
		return tokens
	}
	return int(float64(tokens) / g.scale)
}
