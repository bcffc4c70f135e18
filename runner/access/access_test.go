package access_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"holon/runner/access"
	"holon/state"
	"holon/test/expect"
)

const (
	tokenA = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"
	tokenB = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFH"
)

func file(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// The rights of a caller are those of its line, and no more.
func TestRights(t *testing.T) {
	t.Parallel()
	for rights, want := range map[string]access.Caller{
		"":                         {Sessions: true},
		":sessions":                {Sessions: true},
		":sessions+agents=none":    {Sessions: true, Agents: []string{}},
		":agents=all":              {AllAgents: true},
		":agents=main,ci":          {Agents: []string{"main", "ci"}},
		":sessions+agents=main":    {Sessions: true, Agents: []string{"main"}},
		":operator":                {Operator: true, Sessions: true, AllAgents: true},
		":operator+agents=all":     {Operator: true, Sessions: true, AllAgents: true},
		":agents=all+sessions\r\n": {Sessions: true, AllAgents: true},
	} {
		tokens, err := access.OpenTokens(file(t, "# who\n\n  app-1:"+tokenA+rights+"\nother:"+tokenB+":agents=none"))
		expect.NoError(t, err)
		want.Name = "app-1"
		if got, ok := tokens.Find(tokenA); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%q gives %+v, %t, want %+v", rights, got, ok, want)
		}
		for _, unknown := range []string{"", tokenA + "x", tokenA[1:], "app-1"} {
			if got, ok := tokens.Find(unknown); ok || !reflect.DeepEqual(got, access.Caller{}) {
				t.Errorf("%q is the token of %+v", unknown, got)
			}
		}
	}
}

// A refusal names the line and a remedy, and has no token in it.
func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, line string }{
		{tokenA, "line 1"},
		{"a:" + tokenA + "\n\nb b:" + tokenB, "line 3"},
		{":" + tokenA, "line 1"},
		{"operator:" + tokenA, "line 1"},
		{strings.Repeat("n", 65) + ":" + tokenA, "line 1"},
		{"a:" + tokenA[1:], "line 1"},
		{"a: " + tokenA, "line 1"},
		{"a:" + tokenA + "\n#\na:" + tokenB, "line 3"},
		{"a:" + tokenA + "\nb:" + tokenA, "line 2"},
		{"a:" + tokenA + ":", "line 1"},
		{"a:" + tokenA + ":" + tokenB, "line 1"},
		{"a:" + tokenA + ":sessions+", "line 1"},
		{"a:" + tokenA + ":Sessions", "line 1"},
		{"a:" + tokenA + ":agents=", "line 1"},
		{"a:" + tokenA + ":agents=a,../b", "line 1"},
		{"a:" + tokenA + ":agents=none+agents=a", "line 1"},
		{"a:" + tokenA + ":operator+agents=a", "line 1"},
		{strings.Repeat("#\n", 40<<10), "KiB"},
	} {
		_, err := access.OpenTokens(file(t, tc.text))
		e, ok := errors.AsType[*state.Error](err)
		if !ok || e.Code != access.CodeInvalidToken || e.Param != "--tokens-file" || e.Hint == "" ||
			!strings.Contains(e.Message, tc.line) || strings.Contains(e.Message+e.Hint, tokenA[1:]) ||
			strings.Contains(e.Message+e.Hint, tokenB) {
			t.Errorf("%q: got %#v, want a refusal that names %s", tc.text, err, tc.line)
		}
	}
	for name, path := range map[string]string{"missing": filepath.Join(t.TempDir(), "no"), "directory": t.TempDir()} {
		if _, err := access.OpenTokens(path); !state.IsCode(err, access.CodeInvalidToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A change counts from the next token on. A file that cannot be used gives no one access until it can.
func TestChangedFiles(t *testing.T) {
	t.Parallel()
	path := file(t, "a:"+tokenA)
	tokens, err := access.OpenTokens(path)
	expect.NoError(t, err)
	finds := func(what, token string, want bool) {
		t.Helper()
		_, got := tokens.Find(token)
		expect.Equal(t, what, got, want)
	}
	for _, step := range []struct {
		what, text string
		mode       os.FileMode
		a, b, bad  bool
	}{
		{"another token, of the same size", "a:" + tokenB, 0o600, false, true, false},
		{"a line that is wrong", "a:" + tokenB + "\nb:x", 0o600, false, false, true},
		{"both", "a:" + tokenA + "\nb:" + tokenB, 0o600, true, true, false},
		{"open to others", "a:" + tokenA + "\nb:" + tokenB, 0o604, false, false, true},
		{"closed again", "a:" + tokenA + "\nb:" + tokenB, 0o600, true, true, false},
		{"empty", "", 0o600, false, false, false},
	} {
		expect.NoError(t, os.WriteFile(path, []byte(step.text), 0o600))
		expect.NoError(t, os.Chmod(path, step.mode))
		finds(step.what+": the first token", tokenA, step.a)
		finds(step.what+": the second token", tokenB, step.b)
		expect.Equal(t, step.what+": refused", tokens.Err() != nil, step.bad)
	}
	expect.NoError(t, os.Remove(path))
	finds("removed", tokenA, false)
}

func TestCallers(t *testing.T) {
	t.Parallel()
	if c := access.From(t.Context()); !reflect.DeepEqual(c, access.Caller{}) || c.MayAddress("main") {
		t.Errorf("no one is %+v, and may address agents", c)
	}
	some := access.Caller{Name: "ci", Agents: []string{"main"}}
	got := access.From(access.With(t.Context(), some))
	if !reflect.DeepEqual(got, some) || !got.MayAddress("main") || got.MayAddress("other") || got.MayAddress("") {
		t.Errorf("got %+v, want %+v, which may address main only", got, some)
	}
	if !access.OfOperator(access.Operator).MayAddress("any") {
		t.Error("the operator may not address an agent")
	}
}

// Whatever is in the file, no token of less than the least length is one, and reading it again gives the same.
func FuzzTokens(f *testing.F) {
	for _, seed := range []string{"a:" + tokenA, "a:" + tokenA + ":sessions+agents=all", "#\n\na:b:c\n",
		"a:" + tokenA + ":operator\r\nb:" + tokenB + ":agents=x,y"} {
		f.Add(seed, tokenA)
	}
	path := file(f, "")
	f.Fuzz(func(t *testing.T, text, token string) {
		expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		tokens, err := access.OpenTokens(path)
		if err != nil {
			if e, ok := errors.AsType[*state.Error](err); !ok || e.Hint == "" {
				t.Fatalf("%q is refused with %#v", text, err)
			}
			return
		}
		c, ok := tokens.Find(token)
		if ok && (len(token) < access.MinToken || c.Name == "" || c.Name == access.Operator ||
			!strings.Contains(text, c.Name+":"+token)) {
			t.Fatalf("%q is the token of %+v in %q", token, c, text)
		}
	})
}
