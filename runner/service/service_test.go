package service

import (
	"fmt"
	"strings"
	"testing"

	"holon/state"
	"holon/test/expect"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"db=postgres:16":                    "{db postgres:16 [] []}",
		"db=r.example:5000/pg@sha256:00,A=": "{db r.example:5000/pg@sha256:00 [A=] []}",
		`my-q1=q,A=b=c,"B=1,2",/var/lib/q`:  "{my-q1 q [A=b=c B=1,2] [/var/lib/q]}",
	} {
		list, err := ParseAll([]string{text})
		expect.NoError(t, err)
		expect.Equal(t, text, fmt.Sprint(list[0]), want)
	}
	for _, text := range []string{"", "db", "=x", "DB=x", "a.b=x", "localhost=x", "-a=x", "db=", "db=-x", "db=a b", "db=x,",
		"db=x,secret", "db=x,/", "db=x,/a/../b", "db=x,/a/", "db=x,1A=b", "db=x\nA=b", `db=x,"A`, "db=x,A=\x1b",
		strings.Repeat("a", 64) + "=x"} {
		_, err := ParseAll([]string{text})
		if !state.IsCode(err, CodeInvalid) {
			t.Errorf("%q: got %v", text, err)
		}
	}
	var many []string
	for i := range Max + 1 {
		many = append(many, fmt.Sprintf("s%d=x", i))
	}
	for _, list := range [][]string{many, {"a=x", "a=y"}} {
		if _, err := ParseAll(list); !state.IsCode(err, CodeInvalid) {
			t.Errorf("%q: got %v", list, err)
		}
	}
	_, err := parse("db=x,hunter2=")
	expect.NoError(t, err)
	if _, err = parse("db=x,a-b=hunter2"); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("an error shows a value: %v", err)
	}
}

// What is accepted has one reading.
func FuzzParse(f *testing.F) {
	f.Add(`db=x,"A=1,2",/d`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse(text)
		if err != nil {
			return
		}
		if s.Image == "" || strings.ContainsAny(s.Name, "/:, ") {
			t.Errorf("%q: %+v", text, s)
		}
		for _, pair := range s.Env {
			if !strings.Contains(pair, "=") {
				t.Errorf("%q: %+v", text, s)
			}
		}
	})
}
