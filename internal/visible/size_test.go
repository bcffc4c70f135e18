package visible_test

import (
	"testing"

	"holon/internal/visible"
)

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 512: "512 B", 1536: "1.5 KiB", 2 << 30: "2 GiB",
		71_876_277_000: "66.9 GiB", 1 << 60: "1 EiB"} {
		if got := visible.Size(n); got != want {
			t.Errorf("Size(%d) = %q, want %q", n, got, want)
		}
	}
}
