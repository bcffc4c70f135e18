package pool

import (
	"testing"

	"holon/runner"
	"holon/test/expect"
)

// The quota of a turn reaches the session, and the turn of the caller stays as it was.
func TestRequestHasTheQuota(t *testing.T) {
	k, asked := New(Options{Quota: runner.Quota{Run: 6}}), runner.NewTurn("turn_1", "x")
	req := k.request(Turn{Turn: asked})
	expect.Equal(t, "req.DiskBytes", req.DiskBytes, 6)
	expect.Equal(t, "req.Request.Truncation", req.Request.Truncation, "auto")
	expect.Equal(t, "asked.Request.Truncation", asked.Request.Truncation, "disabled")
}
