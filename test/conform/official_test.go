package conform

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// chunks gives one element a Read.
type chunks []string

func (c *chunks) Read(p []byte) (int, error) {
	if len(*c) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*c)[0])
	*c = (*c)[1:]
	return n, nil
}

func TestLossyEvents(t *testing.T) {
	for _, test := range []struct {
		name string
		in   chunks
		want string
	}{
		{"whole events", chunks{"event: a\ndata: 1\n\n", "event: b\ndata:2\n\n"}, "1 2"},
		{"several in one chunk", chunks{"event: a\ndata: 1\n\nevent: b\ndata: 2\n\ndata: [DONE]\n\n"}, "1 2"},
		{"a chunk ends after the name", chunks{"event: a\n", "data: 1\n\n"}, "1"},
		{"a chunk ends after the data", chunks{"event: a\ndata: 1\n", "\ndata: 2\n\n"}, "2"},
		{"a chunk ends within the data", chunks{"event: a\nda", "ta: 1\n\n"}, "1"},
		{"three chunks", chunks{"event: a\n", "data: 1\n", "\n"}, ""},
		{"CR", chunks{"event: a\r\ndata: 1\r\n\r\n"}, ""},
		{"the last data line counts", chunks{"data: 1\ndata: 2\n\n"}, "2"},
		{"comments", chunks{": ping\nevent: a\ndata: 1\n\n: ping\n\n"}, "1"},
		{"no end", chunks{"data: 1\n"}, ""},
	} {
		got, err := lossyEvents(&test.in)
		var list []string
		for _, data := range got {
			list = append(list, string(data))
		}
		if err != nil || strings.Join(list, " ") != test.want {
			t.Errorf("%s: %q (%v), want %q", test.name, list, err, test.want)
		}
	}
	broken := errors.New("broken")
	if _, err := lossyEvents(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}
