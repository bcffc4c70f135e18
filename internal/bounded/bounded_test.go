package bounded_test

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"holon/internal/bounded"
	"holon/test/expect"
)

func TestReadAll(t *testing.T) {
	broken, tooLarge := errors.New("broken"), &bounded.TooLargeError{Limit: 4}
	for name, c := range map[string]struct {
		from io.Reader
		data string
		err  error
		left string // what the reader still has
	}{
		"empty":        {from: strings.NewReader("")},
		"at the limit": {from: strings.NewReader("1234"), data: "1234"},
		"beyond it":    {from: strings.NewReader("1234567"), data: "1234", err: tooLarge, left: "67"},
		"in pieces":    {from: iotest.OneByteReader(strings.NewReader("12345")), data: "1234", err: tooLarge},
		"breaking": {from: io.MultiReader(strings.NewReader(
			"12"), iotest.ErrReader(broken)), data: "12", err: broken},
		"breaking late": {from: io.MultiReader(strings.NewReader("12345"), iotest.ErrReader(broken)), data: "1234",
			err: tooLarge},
	} {
		data, err := bounded.ReadAll(c.from, 4)
		expect.Equal(t, name, string(data), c.data)
		if !reflect.DeepEqual(err, c.err) {
			t.Errorf("%s: got error %v, want %v", name, err, c.err)
		}
		if left, err := io.ReadAll(c.from); name == "beyond it" && (string(left) != c.left || err != nil) {
			t.Errorf("%s: %q is left (%v), want %q", name, left, err, c.left)
		}
	}
}
