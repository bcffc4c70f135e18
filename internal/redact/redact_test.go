package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"holon/test/expect"
)

const key = "sk-proj-0123456789/abc+DEF~xyz"

func known(values ...string) *Set {
	s := &Set{}
	for i, v := range values {
		s.Add(fmt.Sprintf("NAME_%d", i), v)
	}
	return s
}

func TestSetFindsEncodings(t *testing.T) {
	s := known(key)
	quoted, err := json.Marshal(key + `"`)
	expect.NoError(t, err)
	for name, text := range map[string]string{
		"plain": key, "base64": base64.StdEncoding.EncodeToString([]byte(key)),
		"base64 of an assignment": base64.StdEncoding.EncodeToString([]byte("A_KEY=" + key)),
		"base64url":               base64.RawURLEncoding.EncodeToString([]byte("x" + key)),
		"hex":                     hex.EncodeToString([]byte(key)),
		"HEX":                     strings.ToUpper(hex.EncodeToString([]byte(key))),
		"query":                   url.QueryEscape(key), "small escapes": strings.ToLower(url.QueryEscape("/+")) + "|" +
			lowerEscapes(url.QueryEscape(key)), "path": url.PathEscape(key),
		"JSON": string(quoted), "quoted JSON": fmt.Sprintf("%q", quoted),
	} {
		got := s.Text("a " + text + " b")
		if !strings.Contains(got, Mask) || strings.Contains(got, key) {
			t.Errorf("%s: %q", name, got)
		}
		if !strings.HasPrefix(got, "a ") || !strings.HasSuffix(got, " b") {
			t.Errorf("%s: more than the secret is gone: %q", name, got)
		}
	}
}

// What base64 and xxd break into lines is found line by line.
func TestSetFindsBrokenLines(t *testing.T) {
	long := strings.Repeat("0123456789abcdefghijk-", 8)
	s := known(long)
	for name, c := range map[string]struct {
		encoded string
		columns int
	}{"base64": {base64.StdEncoding.EncodeToString([]byte(long)), 76}, "xxd": {hex.EncodeToString([]byte(long)), 60}} {
		var broken strings.Builder
		for rest := c.encoded; rest != ""; {
			n := min(len(rest), c.columns)
			broken.WriteString(rest[:n] + "\n")
			rest = rest[n:]
		}
		if got := s.Text(broken.String()); len(got) > 16+strings.Count(broken.String(), "\n")*(len(Mask)+1) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestSetOfSeveralLines(t *testing.T) {
	pem := "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\nAASCBKcwggSjAgEAAoIBAQC7\n" +
		"-----END PRIVATE KEY-----\n"
	s := known(pem)
	if got, want := s.Text("x\n"+pem+"y"),
		"x\n-----BEGIN PRIVATE KEY-----\n[redacted]\n[redacted]\n-----END PRIVATE KEY-----\ny"; got != want {
		t.Errorf("%q", got)
	}
	quoted, err := json.Marshal(pem)
	expect.NoError(t, err)
	if got := s.JSON(quoted, nil); bytes.Contains(got, []byte("MIIE")) || !json.Valid(got) {
		t.Errorf("%s", got)
	}
}

func TestShortValuesAreNotLookedFor(t *testing.T) {
	s := &Set{}
	if s.Add("A_TOKEN", " 1234567\n") || !s.Empty() {
		t.Error("7 bytes are known")
	}
	if !s.Add("A_TOKEN", "12345678\n") || s.Empty() {
		t.Error("8 bytes are not known")
	}
	if got := s.Text("=12345678="); got != "=[redacted]=" {
		t.Error(got)
	}
}

// The name of a file does not count as a secret, since redacting it would break every path below.
func TestPathsAreNotSecrets(t *testing.T) {
	s, dir := &Set{}, t.TempDir()
	s.AddEnviron([]string{"C_KEY=" + dir}, nil)
	if !s.Empty() {
		t.Error("it is known: ", names(t, s, dir))
	}
}

// A structural word that is also a secret does not break the structure, and is
// hidden everywhere else.
func TestWordsOfAFormat(t *testing.T) {
	constants := Constants{"type": {"response.completed",
		"function_call"}, "status": {"completed"}, "role": {"developer"}, "kind": {Word}, "id": {Any}}
	s := known("response", "completed", "developer", "sequence_number", "Authorization")
	for in, want := range map[string]string{
		`{"type":"response.completed","sequence_number":1}`: `{"type":"response.completed","sequence_number":1}`,
		`{"status" : "completed", "role":"developer"}`:      `{"status" : "completed", "role":"developer"}`,
		`{"text":"completed"}`:                              `{"text":"[redacted]"}`,
		`{"text":"the developer completed it"}`:             `{"text":"the [redacted] [redacted] it"}`,
		`["completed"]`:                                     `["[redacted]"]`,
		`"completed"`:                                       `"[redacted]"`,
		`{"status":["completed"]}`:                          `{"status":["[redacted]"]}`,
		`{"status":{"text":"completed"}}`:                   `{"status":{"text":"[redacted]"}}`,
		`{"role":"completed"}`:                              `{"role":"[redacted]"}`, // not a constant of that member
		`{"kind":"completed","id":"Authorization"}`:         `{"kind":"completed","id":"Authorization"}`,
		`{"kind":"Authorization"}`:                          `{"kind":"[redacted]"}`, // not a word of a format
		`{"status":"completed "}`:                           `{"status":"[redacted] "}`,
		`{"type":"x","a":{},"b":"response.completed"}`:      `{"type":"x","a":{},"b":"[redacted].[redacted]"}`,
		`{"type":"x\"status","a":"completed"}`:              `{"type":"x\"status","a":"[redacted]"}`,
		`{"Authorization":"sequence_number"}`:               `{"[redacted]":"[redacted]"}`,
		`{"args":"{\"status\":\"completed\"}"}`:             `{"args":"{\"status\":\"[redacted]\"}"}`,
	} {
		if got := string(s.JSON([]byte(in), constants)); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
	const event = `{"status":"completed"}`
	expect.Equal(t, "without constants", string(s.JSON([]byte(event), nil)), `{"status":"[redacted]"}`)
	var out bytes.Buffer
	w := s.Writer(&out, constants)
	for _, text := range []string{event + "\n", "completed\n", "{\n  \"status\": \"completed\"\n}\n"} {
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	expect.Equal(t, "written", out.String(), event+"\n[redacted]\n{\n  \"status\": \"completed\"\n}\n")
}

// A replacement never touches what another wrote: not when a secret is a part of the mask, and not when one
// begins or ends with a part of it. Redacting twice is redacting once.
func TestMaskIsNeverTouched(t *testing.T) {
	for _, c := range []struct {
		secrets []string
		in      string
		want    string
		part    bool // the secrets are parts of the mask: in pieces, the text becomes the same
	}{
		{[]string{"redacted]"}, `a redacted] b`, `a [redacted] b`, true},
		{[]string{"redacted]"}, `a [redacted] b`, `a [redacted] b`, true},
		{[]string{"redacted]", "[redacted", "redacted"}, `redacted [redacted] redacted`,
			`[redacted] [redacted] [redacted]`, false},
		{[]string{"redacted"}, `redacted [redacted] x`, `[redacted] [redacted] x`, false},
		{[]string{Mask}, `a [redacted] b`, `a [redacted] b`, true},
		{[]string{"redacted]"}, `[redac`, `[redac`, true},
		{[]string{"redacted] and more"}, `[redacted] and more`, Mask, false},
		{[]string{"more and [redacted"}, `more and [redacted] x`, Mask + ` x`, false},
		{[]string{"a [redacted] b"}, `a [redacted] b`, Mask, false},
		{[]string{"foofoofoo", "]XYZ12345"}, `foofoofooXYZ12345`, Mask, false},
		{[]string{"foofoofoo", "XYZ12345["}, `XYZ12345foofoofoo`, Mask, false},
		{[]string{"abcdefgh", "ghijklmn"}, `abcdefghijklmn`, Mask, false},
	} {
		s := known(c.secrets...)
		if got := s.Text(c.in); got != c.want {
			t.Errorf("%q: %q becomes %q, want %q", c.secrets, c.in, got, c.want)
		}
		if got := s.Text(c.want); got != c.want {
			t.Errorf("%q: redacted again, %q becomes %q", c.secrets, c.want, got)
		}
		quoted, err := json.Marshal(c.in)
		expect.NoError(t, err)
		if got, want := string(s.JSON(quoted, nil)), `"`+c.want+`"`; got != want {
			t.Errorf("%q: the JSON %s becomes %s, want %s", c.secrets, quoted, got, want)
		}
		for size := 1; size <= len(c.in) && c.part; size++ {
			stream, got := s.Stream(), ""
			for piece := range slices.Chunk([]byte(c.in), size) {
				got += string(stream.Next(piece))
			}
			if got += string(stream.Rest()); got != c.want {
				t.Errorf("%q: in pieces of %d, %q becomes %q, want %q", c.secrets, size, c.in, got, c.want)
			}
		}
	}
}

// names reads text in pieces.
func names(t *testing.T, s *Set, text string) []string {
	t.Helper()
	got, err := s.Names(iotest.HalfReader(strings.NewReader(text)))
	if err != nil {
		t.Error(err)
	}
	return got
}

func TestSecretNames(t *testing.T) {
	for name, want := range map[string]bool{
		"OPENAI_API_KEY": true, "GITHUB_TOKEN": true, "github_token": true, "CLIENT_SECRET": true,
		"AWS_SECRET_ACCESS_KEY": true, "PGPASSWORD": true, "DB_PASSWORD_FILE": true, "TOKEN": true,
		"PATH": false, "KEYBOARD": false, "TOKENIZERS_PARALLELISM": false, "HOME": false, "HOLON_TOKEN_FILE": false,
		"MONKEY": false, "SECRETARY": false, "": false,
	} {
		if secret(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func TestAddEnviron(t *testing.T) {
	s := &Set{}
	s.AddEnviron([]string{"A_TOKEN=aaaaaaaaaa", "PLAIN=bbbbbbbbbb", "MARKED=cccccccccc", "NOVALUE"}, []string{"MARKED"})
	if got := names(t, s, "aaaaaaaaaa bbbbbbbbbb cccccccccc"); !slices.Equal(got, []string{"A_TOKEN", "MARKED"}) {
		t.Error(got)
	}
	for before := range 100 { // wherever a piece ends
		if got := names(t, s, strings.Repeat("x", 256<<10+before)+"cccccccccc"); !slices.Equal(got,
			[]string{"MARKED"}) {
			t.Error(before, got)
		}
	}
	if got := names(t, s, "nothing here"); got != nil {
		t.Error(got)
	}
}

// The nil Set and the empty one change nothing and cost nothing.
func TestNothingKnown(t *testing.T) {
	data := []byte(`{"a":"` + key + `"}`)
	for name, s := range map[string]*Set{"nil": nil, "empty": {}} {
		stream := s.Stream()
		if n := testing.AllocsPerRun(100, func() {
			if out := s.JSON(data, nil); string(out) != string(data) || s.Text(key) != key {
				t.Fatalf("%q and %q are changed", out, s.Text(key))
			}
			if next, rest := stream.Next(data), stream.Rest(); len(next) != len(data) || rest != nil {
				t.Fatalf("the stream gives %q and %q", next, rest)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestJSON(t *testing.T) {
	s := known(key, "nabcdefgh", `with "quotes" and \ in it`)
	for in, want := range map[string]string{
		`{"a":"x","b":["` + key + `"],"c":1.50}`:     `{"a":"x","b":["[redacted]"],"c":1.50}`,
		`{"` + key + `":null}`:                       `{"[redacted]":null}`,
		`{"a":"\nabcdefgh"}`:                         `{"a":"\nabcdefgh"}`, // a line end, and no n
		`{"a":"\\nabcdefgh"}`:                        `{"a":"\\[redacted]"}`,
		`{"a":"with \"quotes\" and \\ in it"}`:       `{"a":"[redacted]"}`,
		`{"a":"<\u003c ` + key + ` \ud83d\ude00\n"}`: `{"a":"<< [redacted] 😀\n"}`,
		`{"a":"the \"` + key + `\""}`:                `{"a":"the \"[redacted]\""}`,
		`not JSON: ` + key:                           `not JSON: [redacted]`,
		`{ "unchanged" : "\u003c" }`:                 `{ "unchanged" : "\u003c" }`,
	} {
		if got := string(s.JSON([]byte(in), nil)); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add("nabcdefgh", []byte(`{"a":"\nabcdefgh","nabcdefgh":["\\nabcdefgh"]}`))
	f.Add(`":"":"":"`, []byte(`{"a":"":"":"","b":"":"}`))
	f.Add("\\u003c\\u003c", []byte(`{"a":"\u003c\u003c"}`))
	f.Fuzz(func(t *testing.T, secret string, data []byte) {
		if len(secret) > 200 {
			t.Skip()
		}
		s := known(secret)
		got := s.JSON(data, nil)
		if json.Valid(data) && !json.Valid(got) {
			t.Fatalf("%s is no JSON", got)
		}
		secret = strings.TrimSpace(secret)
		if s.Empty() || strings.ContainsAny(secret, "\r\n") || strings.Contains(Mask, secret) {
			return
		}
		var v any
		if json.Unmarshal(got, &v) == nil {
			if text, ok := v.(string); ok && strings.Contains(strings.ReplaceAll(text, Mask, "\n"), secret) {
				t.Fatalf("%q is left in %q", secret, text)
			}
		}
	})
}

func TestWriter(t *testing.T) {
	s, out := &Set{}, &bytes.Buffer{}
	w := s.Writer(out, nil)
	write := func(text string) {
		t.Helper()
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	write("before " + key + "\n")
	s.Add("KEY", key)
	write("split " + key[:10])
	write(key[10:] + " end\nheld " + key[:5])
	expect.NoError(t, w.Flush())
	if got, want := out.String(), "before "+key+"\nsplit [redacted] end\nheld "+key[:5]; got != want {
		t.Errorf("%q", got)
	}
}

func TestForget(t *testing.T) {
	var s Set
	s.Add("stays", "a-value-that-stays")
	s.Add("goes", "a-value-that-goes")
	s.Forget("a-value-that-goes")
	s.Forget("never known")
	expect.Equal(t, "after forgetting one", s.Text("a-value-that-stays a-value-that-goes"), Mask+" a-value-that-goes")
	if got := names(t, &s, "a-value-that-goes"); len(got) != 0 {
		t.Errorf("Names has %v of what was forgotten", got)
	}
	s.Forget("a-value-that-stays")
	if !s.Empty() {
		t.Error("the set is not empty after everything was forgotten")
	}
	if s.Add("again", "a-value-that-goes"); s.Text("a-value-that-goes") != Mask {
		t.Error("what was forgotten cannot be known again")
	}
}

// What begins as a time or an id of ours would be found in every record, and is left out with what is too short. The
// names are returned for a warning.
func TestAddEnvironLeavesOut(t *testing.T) {
	for value, out := range map[string]bool{
		"2026-11-23T0": true, "2026-11-": true, "2026-11-23T06:09:53.123Z": true, "2026-11-23-and-more": false,
		"resp_01m": true, "turn_01k4h2v8d3q9w0x5y7z1a2b3c4": true, "sk_01h455vb4pex5vsknk084sn02q": false,
		"resp_secret": false, "1234567": true, " ": false, "12345678": false, "turns/tu": false,
	} {
		s := &Set{}
		unknown := s.AddEnviron([]string{"MY_TOKEN=" + value}, nil)
		if got := slices.Equal(unknown, []string{"MY_TOKEN"}); got != out {
			t.Errorf("%q: the variables left out are %q, want MY_TOKEN: %v", value, unknown, out)
		}
		if out && !s.Empty() {
			t.Errorf("%q is known", value)
		}
	}
	// Lines that are too short are not looked for where they stand alone.
	s := &Set{}
	unknown := s.AddEnviron([]string{"A_TOKEN=line1\nline2\nline3", "B_TOKEN=ab\ncdefghijklmnop"}, nil)
	if !slices.Equal(unknown, []string{"A_TOKEN"}) {
		t.Errorf("the variables left out are %q, want A_TOKEN", unknown)
	}
}

// A store can see which values it was not cleaned of, and cannot read them.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	var s Set
	s.Add("A", "a-long-secret")
	s.AddFresh("T", "made-just-now-1")
	one := s.Fingerprints([]byte("key"))
	s.Add("B", "another-secret")
	both := s.Fingerprints([]byte("key"))
	if len(one) != 1 || len(both) != 2 || !slices.Contains(both, one[0]) || slices.Contains(s.Fingerprints(nil), one[0]) {
		t.Errorf("of one value %q, of two %q", one, both)
	}
	s.Forget("another-secret")
	s.Forget("made-just-now-1")
	if left := s.Fingerprints([]byte("key")); !slices.Equal(left, one) || s.Text("made-just-now-1") != "made-just-now-1" {
		t.Errorf("after others were forgotten %q, want %q", left, one)
	}
}
