package pool

import (
	"testing"
	"time"

	"holon/runner"
	"holon/runner/gateway"
)

// Every limit of a turn reaches those who keep it.
func TestRequestHasTheLimits(t *testing.T) {
	want := gateway.Budget{MaxTokens: 1, MaxRequests: 2, MaxCost: 3}
	k := New(Options{Quota: runner.Quota{Run: 6}})
	req := k.request(Turn{Turn: runner.Turn{MaxRounds: 4, MaxToolCalls: 5, Budget: want, Timeout: time.Minute}})
	if req.DiskBytes != 6 {
		t.Errorf("DiskBytes = %d, want 6", req.DiskBytes)
	}
	if req.Budget != want || req.MaxRounds != 4 || req.MaxToolCalls != 5 || req.Timeout != time.Minute {
		t.Errorf("%+v", req)
	}
}
