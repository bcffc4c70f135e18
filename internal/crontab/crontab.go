// Package crontab reads the times of timers as crontab(5) writes them: minute, hour, day of the month, month and day of
// the week, of the clock of a time zone.
//
// Where the clock of the zone is put forward, a time that it skips comes at the first minute after. Where it is put
// back, a time that it shows twice counts the first time. With * or */N as the hour, a time counts whenever the clock
// shows it.
package crontab

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the zones of hosts that have no database of them

	"github.com/adhocore/gronx"
)

// Fields of an expression.
const (
	fields = 5
	hour   = 1
)

// maxExpression bounds an expression, in bytes.
const maxExpression = 200

// Schedule is when something is due again and again, at most once a minute.
type Schedule struct {
	expression string
	zone       *time.Location
	hourly     bool // the hour is * or */N
}

// Error says what is wrong with an expression or a zone.
type Error struct {
	Param   string // cron or zone
	Message string
	Hint    string
}

func (e *Error) Error() string { return e.Message + "; " + e.Hint }

// Parse reads an expression of five fields and the name of a zone of the IANA database, "" for UTC. The error is an
// *Error.
func Parse(expression, zone string) (Schedule, error) {
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return Schedule{}, &Error{"zone", fmt.Sprintf("%.60q is not a time zone", zone), "write one as Europe/Berlin, or UTC"}
	}
	parts := strings.Fields(expression)
	s := Schedule{expression: strings.Join(parts, " "), zone: loc}
	if len(expression) > maxExpression || len(parts) != fields || !gronx.IsValid(s.expression) {
		return Schedule{}, &Error{"cron", fmt.Sprintf("%.60q is not a time of crontab(5)", expression),
			"write minute, hour, day, month and weekday, as in 0 9 * * 1-5"}
	}
	s.hourly = strings.HasPrefix(parts[hour], "*")
	if _, err := s.Next(time.Now()); err != nil {
		return Schedule{}, &Error{"cron", fmt.Sprintf("%.60q never comes", expression), "choose a day that its month has"}
	}
	return s, nil
}

var errNever = errors.New("it never comes again")

// Next returns the first time after a time at which the schedule is due, in UTC. The error says that there is none.
func (s Schedule) Next(after time.Time) (time.Time, error) {
	if at, ok := s.shownNext(after); ok {
		return at, nil
	}
	for at := wall(after.In(s.zone)); ; {
		due, err := gronx.NextTickAfter(s.expression, at, false)
		if err != nil {
			return time.Time{}, errNever
		}
		if set := s.set(due); set.After(after) {
			return set.UTC(), nil
		}
		at = due
	}
}

// wall is what a clock shows, as if it were never put forward or back.
func wall(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
}

// shownNext is Next by looking at the clock each minute of a day in which it is put forward or back, for an hourly
// schedule.
func (s Schedule) shownNext(after time.Time) (time.Time, bool) {
	const day = 25 * time.Hour
	if !s.hourly || offset(after, s.zone) == offset(after.Add(day), s.zone) {
		return time.Time{}, false
	}
	clock := gronx.New()
	for at := after.UTC().Truncate(time.Minute).Add(time.Minute); at.Before(after.Add(day)); at = at.Add(time.Minute) {
		if due, err := clock.IsDue(s.expression, wall(at.In(s.zone))); due && err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// set returns when the clock of the zone shows a time first, or where it skips it, the time at which it does.
func (s Schedule) set(shown time.Time) time.Time {
	const near = 24 * time.Hour
	before := shown.Add(-offset(shown.Add(-near), s.zone)) // as the clock went the day before
	for _, at := range []time.Time{before, shown.Add(-offset(shown.Add(near), s.zone))} {
		if wall(at.In(s.zone)).Equal(shown) {
			return at
		}
	}
	start, _ := before.In(s.zone).ZoneBounds()
	return start
}

// offset is how far a zone is before UTC.
func offset(at time.Time, zone *time.Location) time.Duration {
	_, seconds := at.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}
