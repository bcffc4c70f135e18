package turns

import (
	"fmt"
	"time"
)

// timeLayout is RFC 3339 in UTC with exactly three decimals, so that the
// strings sort as the times do.
const timeLayout = "2006-01-02T15:04:05.000Z"

// Time is an instant in UTC to the millisecond. The zero Time is written as
// null and means "not yet". It compares with ==.
type Time struct{ ms int64 } // milliseconds since the epoch; 0 is the zero Time

// At returns t cut to the millisecond.
func At(t time.Time) Time {
	if t.IsZero() {
		return Time{}
	}
	return Time{t.UnixMilli()}
}

// AtOptional is At, and the zero Time for none.
func AtOptional(t *time.Time) Time {
	if t == nil {
		return Time{}
	}
	return At(*t)
}

// Time returns t as a time.Time in UTC; the zero Time gives the zero time.Time.
func (t Time) Time() time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.ms).UTC()
}

// IsZero reports whether t means "not yet".
func (t Time) IsZero() bool { return t.ms == 0 }

// Equal reports whether t and u are the same instant. It is what == says.
func (t Time) Equal(u Time) bool { return t == u }

// Sub returns the duration t-u, or zero when either is not set.
func (t Time) Sub(u Time) time.Duration {
	if t.IsZero() || u.IsZero() {
		return 0
	}
	return time.Duration(t.ms-u.ms) * time.Millisecond
}

// String returns t as it stands on the wire, or "" for the zero Time.
func (t Time) String() string {
	if t.IsZero() {
		return ""
	}
	return t.Time().Format(timeLayout)
}

// MarshalJSON writes RFC 3339 with milliseconds, or null for the zero Time.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	u := t.Time()
	if y := u.Year(); y < 0 || y > 9999 {
		return nil, fmt.Errorf("encode time: year %d is outside 0 to 9999", y)
	}
	return u.AppendFormat(make([]byte, 0, len(timeLayout)+2), `"`+timeLayout+`"`), nil
}

// UnmarshalJSON reads any RFC 3339 time, cut to the millisecond, or null.
func (t *Time) UnmarshalJSON(data []byte) error {
	var u time.Time
	if err := u.UnmarshalJSON(data); err != nil {
		return invalid("", fmt.Sprintf("the value must be an RFC 3339 time, not %.40s", data))
	}
	*t = At(u)
	return nil
}
