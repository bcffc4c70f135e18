// Package duration reads the times that people write in flags, variables and files: as Go does, and in days and weeks.
package duration

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Day is 24 hours, whatever a clock does.
const Day = 24 * time.Hour

var errForm = errors.New("not a duration")

// Parse reads a duration such as 90s, 2h30m, 30d, 1.5d, 2w or 1d12h: what time.ParseDuration reads, or a number of days
// or weeks, before which nothing and behind which only such a duration may stand.
func Parse(text string) (time.Duration, error) {
	at := strings.LastIndexAny(text, "dw")
	if at < 0 {
		return time.ParseDuration(text)
	}
	unit := map[byte]time.Duration{'d': Day, 'w': 7 * Day}[text[at]]
	number, err := strconv.ParseFloat(text[:at], 64)
	days := number * float64(unit)
	if err != nil || !(math.Abs(days) < 1<<62) { // a NaN neither
		return 0, errForm
	}
	rest := text[at+1:]
	if rest == "" {
		return time.Duration(days), nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || days < 0 || rest[0] == '-' || rest[0] == '+' || more >= 1<<62 {
		return 0, errForm
	}
	return time.Duration(days) + more, nil
}

// Text writes 1h instead of 1h0m0s.
func Text(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
