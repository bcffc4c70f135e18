package model_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"holon/agentd/model"
)

// pieces returns units as the JSON strings of a stream that was cut at the given
// places.
func pieces(units []uint16, cuts uint) (list []string) {
	var b strings.Builder
	for i, u := range units {
		if i > 0 && cuts&(1<<(i-1)) != 0 {
			list = append(list, `"`+b.String()+`"`)
			b.Reset()
		}
		if u < 0x80 {
			b.WriteByte(byte(u))
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, u)
	}
	return append(list, `"`+b.String()+`"`)
}

func joined(t *testing.T, list []string) string {
	t.Helper()
	var j model.Joiner
	var got strings.Builder
	for _, raw := range list {
		var piece model.WireText
		if err := json.Unmarshal([]byte(raw), &piece); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		text := j.Join(piece)
		if !utf8.ValidString(text) {
			t.Fatalf("%q: %q is not text", list, text)
		}
		got.WriteString(text)
	}
	got.WriteString(j.End())
	return got.String()
}

// However a text is cut between its UTF-16 units, it comes out whole.
func TestEverySplit(t *testing.T) {
	const want = "a😀é한👩‍💻"
	units := utf16.Encode([]rune(want))
	for cuts := range uint(1) << (len(units) - 1) {
		list := pieces(units, cuts)
		if got := joined(t, list); got != want {
			t.Fatalf("%q gives %q", list, got)
		}
	}
}

func TestHalvesWithoutTheOther(t *testing.T) {
	for _, test := range []struct {
		list []string
		want string
	}{
		{[]string{`"\ud83d"`}, "\ufffd"},
		{[]string{`"\ude00"`}, "\ufffd"},
		{[]string{`"\ud83d"`, `"x"`}, "\ufffdx"},
		{[]string{`"\ud83d"`, `"\ud83d"`, `"\ude00"`}, "\ufffd😀"},
		{[]string{`"\ud83d"`, `""`, `"\ude00!"`}, "😀!"},
		{[]string{`"\ude00\ud83d"`}, "\ufffd\ufffd"},
		{[]string{`"a\ud83db"`}, "a\ufffdb"},
		{[]string{`"\\ud83d"`, `"\\ude00"`}, `\ud83d\ude00`},
		{[]string{`"\\\ud83d\\"`, `"\ude00"`}, "\\\ufffd\\\ufffd"},
		{[]string{`"\ud83d\n"`, `"\"\ude00\""`}, "\ufffd\n\"\ufffd\""},
		{[]string{`null`, `"x"`}, "x"},
		{[]string{`"한"`, `"\ud55c"`}, "한한"},
	} {
		if got := joined(t, test.list); got != test.want {
			t.Errorf("%q gives %q, not %q", test.list, got, test.want)
		}
	}
	var piece model.WireText
	for _, raw := range []string{`"\ud83d`, `"\ud83d\x"`, `"\ud83`} {
		if err := json.Unmarshal([]byte(raw), &piece); err == nil {
			t.Errorf("%s is read as %q", raw, piece)
		}
	}
}
