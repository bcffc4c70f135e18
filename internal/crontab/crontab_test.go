package crontab

import (
	"holon/test/expect"
	"testing"
	"time"
)

func TestNext(t *testing.T) {
	for _, c := range []struct{ expression, zone, after, want string }{
		{"0 9 * * 1-5", "Europe/Berlin", "2026-11-27T08:00:00Z", "2026-11-30T08:00:00Z"}, // Friday to Monday
		{"0 9 * * 1-5", "Europe/Berlin", "2026-11-27T07:59:59Z", "2026-11-27T08:00:00Z"},
		{"0 9 * * *", "Europe/Berlin", "2026-07-01T00:00:00Z", "2026-07-01T07:00:00Z"}, // summer
		{"0 9 * * *", "", "2026-07-01T00:00:00Z", "2026-07-01T09:00:00Z"},
		{"*/15 * * * *", "", "2026-07-01T00:00:30Z", "2026-07-01T00:15:00Z"},
		{"0 0 29 2 *", "", "2026-07-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"30 6 * * *", "Asia/Kolkata", "2026-07-01T00:00:00Z", "2026-07-01T01:00:00Z"}, // half an hour
		{"15 10 1,15 * *", "America/New_York", "2026-12-16T00:00:00Z", "2027-01-01T15:15:00Z"},
		// put forward in the night of 29 March 2026: 02:00 to 03:00
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		{"0 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},
		{"0 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"},
		// put back in the night of 25 October 2026: 03:00 to 02:00
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"*/20 * * * *", "Europe/Berlin", "2026-10-25T00:40:00Z", "2026-10-25T01:00:00Z"},
		{"30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", "2026-03-08T07:00:00Z"},
		{"45 1 * * *", "America/New_York", "2026-11-01T05:45:00Z", "2026-11-02T06:45:00Z"},
		{"0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", "2026-09-06T04:00:00Z"}, // midnight is skipped
	} {
		s, err := Parse(c.expression, c.zone)
		if err != nil {
			t.Errorf("%s %s: %v", c.expression, c.zone, err)
			continue
		}
		after, err := time.Parse(time.RFC3339, c.after)
		expect.NoError(t, err)
		got, err := s.Next(after)
		if err != nil || got.Format(time.RFC3339) != c.want {
			t.Errorf("%s in %s after %s: %s (%v), want %s", c.expression, c.zone, c.after, got.Format(time.RFC3339), err,
				c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ expression, zone, param string }{
		{"", "", "cron"}, {"* * * *", "", "cron"}, {"* * * * * *", "", "cron"}, {"61 * * * *", "", "cron"},
		{"@hourly", "", "cron"}, {"0 0 30 2 *", "", "cron"}, {"a b c d e", "", "cron"}, {"0 9 * * *", "Mars/Olympus", "zone"},
		{"0 9 * * *", "Local", "zone"}, {"0 9 * * *", "../etc/passwd", "zone"}, {"*/0 * * * *", "", "cron"},
		{"5-1 * * * *", "", "cron"},
	} {
		_, err := Parse(c.expression, c.zone)
		if e, ok := err.(*Error); !ok || e.Param != c.param || e.Hint == "" {
			t.Errorf("%q in %q: %v, want an error of %s", c.expression, c.zone, err, c.param)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0 9 * * 1-5", "Europe/Berlin")
	f.Add("*/7 1,2 L * 5#2", "UTC")
	f.Fuzz(func(t *testing.T, expression, zone string) {
		s, err := Parse(expression, zone)
		if err != nil {
			return
		}
		now := time.Date(2026, 3, 28, 23, 59, 58, 0, time.UTC)
		for range 3 {
			next, err := s.Next(now)
			if err != nil {
				return
			}
			if !next.After(now) {
				t.Fatalf("%q in %q: %v comes after %v", expression, zone, next, now)
			}
			now = next
		}
	})
}
