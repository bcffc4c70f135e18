package duration_test

import (
	"testing"
	"time"

	"holon/internal/duration"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "2h30m": 150 * time.Minute, "0": 0, "0s": 0, "-5m": -5 * time.Minute,
		"30d": 720 * time.Hour, "1.5d": 36 * time.Hour, "2w": 336 * time.Hour, "-1d": -24 * time.Hour,
		"1d12h": 36 * time.Hour, "1w90m": 169*time.Hour + 30*time.Minute, "0d": 0,
	} {
		if got, err := duration.Parse(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "5", "abc", "30 d", "1d-2h", "1d+2h", "1d2", "-1d2h", "1w2d", "1d2d", "NaNd",
		"Infd", "1e300d", "100000000w", "1d2562047h", "30D"} {
		if got, err := duration.Parse(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Hour: "1h", 10 * time.Minute: "10m", 70 * time.Minute: "1h10m",
		90 * time.Second: "1m30s", 0: "0s", 5 * time.Millisecond: "5ms", 720 * time.Hour: "720h"} {
		if got := duration.Text(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}
