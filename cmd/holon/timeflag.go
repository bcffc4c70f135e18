package main

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"holon/internal/duration"
)

// timeFlag is the value of a flag that takes a time: as package duration reads it. It is never negative.
type timeFlag time.Duration

// timeVar defines a flag whose value before is its default.
func timeVar(f *pflag.FlagSet, to *time.Duration, name, usage string) {
	f.Var((*timeFlag)(to), name, usage)
}

func (s *timeFlag) String() string {
	if *s <= 0 {
		return "0" // help does not show it
	}
	return duration.Text(time.Duration(*s))
}

func (s *timeFlag) Type() string { return "time" }

func (s *timeFlag) Set(text string) error {
	d, err := duration.Parse(text)
	if err != nil {
		return errors.New("write for example 90s, 12h or 30d")
	}
	if d < 0 {
		return errors.New("it is less than nothing")
	}
	*s = timeFlag(d)
	return nil
}
