package pool

import (
	"testing"
	"time"

	"holon/runner/gateway"
)

// Every limit of a turn reaches those who keep it.
func TestRequestHasTheLimits(t *testing.T) {
	want := gateway.Budget{MaxTokens: 1, MaxRequests: 2, MaxCost: 3}
	req := Turn{MaxRounds: 4, MaxToolCalls: 5, Budget: want, Timeout: time.Minute}.request()
	if req.Budget != want || req.MaxRounds != 4 || req.MaxToolCalls != 5 || req.Timeout != time.Minute {
		t.Errorf("%+v", req)
	}
}
