package sqlstore

import (
	"fmt"
	"testing"

	"holon/test/expect"
)

// A column is read as the type of where it goes, and only where that can hold it.
func TestValues(t *testing.T) {
	t.Parallel()
	type status string
	var text string
	var named status
	var data []byte
	var number int
	var long int64
	var other any
	row := Values{"a", "open", "{}", int64(1), int64(2), nil}
	expect.NoError(t, row.Scan(&text, &named, &data, &number, &long, &other))
	expect.Equal(t, "read", fmt.Sprint(text, " ", named, " ", string(data), " ", number, " ", long, " ", other),
		"a open {} 1 2 <nil>")
	for name, into := range map[string][]any{"text into a number": {&number}, "too many": {&text, &named, &data, &number,
		&long, &other, &other}, "nothing into a number": {&text, &named, &data, &number, &long, &number}} {
		if row.Scan(into...) == nil {
			t.Errorf("%s is no error", name)
		}
	}
}
