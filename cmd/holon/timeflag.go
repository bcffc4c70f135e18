package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// timeFlag is the value of a flag that takes a time: as Go writes it, or in days and weeks, as 30d. It is never
// negative.
type timeFlag time.Duration

// timeVar defines a flag whose value before is its default.
func timeVar(f *pflag.FlagSet, to *time.Duration, name, usage string) {
	f.Var((*timeFlag)(to), name, usage)
}

func (s *timeFlag) String() string {
	if *s == 0 {
		return ""
	}
	text := time.Duration(*s).String() // 1h0m0s
	text = strings.TrimSuffix(text, "m0s") + map[bool]string{true: "m"}[strings.HasSuffix(text, "m0s")]
	return strings.TrimSuffix(text, "h0m") + map[bool]string{true: "h"}[strings.HasSuffix(text, "h0m")]
}

func (s *timeFlag) Type() string { return "time" }

func (s *timeFlag) Set(text string) error {
	d, err := parseTime(text)
	if err != nil {
		return errors.New("write for example 90s, 12h or 30d")
	}
	if d < 0 {
		return errors.New("it is less than nothing")
	}
	*s = timeFlag(d)
	return nil
}

var timeUnits = map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour}

func parseTime(text string) (time.Duration, error) {
	for suffix, unit := range timeUnits {
		number, ok := strings.CutSuffix(text, suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if days := n * float64(unit); err == nil && days > -1<<62 && days < 1<<62 {
			return time.Duration(days), nil
		}
		return 0, errors.Join(err, strconv.ErrRange)
	}
	return time.ParseDuration(text)
}
