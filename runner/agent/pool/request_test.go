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
	switch {
	case req.Budget != want:
		t.Errorf("req.Budget = %+v, want %+v", req.Budget, want)
	case req.MaxRounds != 4:
		t.Errorf("req.MaxRounds = %d, want 4", req.MaxRounds)
	case req.MaxToolCalls != 5:
		t.Errorf("req.MaxToolCalls = %d, want 5", req.MaxToolCalls)
	case req.Timeout != time.Minute:
		t.Errorf("req.Timeout = %v, want %v", req.Timeout, time.Minute)
	}
}
