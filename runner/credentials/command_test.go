package credentials

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/internal/procfs"
	"holon/state"
	"holon/test/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "sk-sentinel-0123456789abcdef"

// script makes a program of the shell's and a command that runs it.
func script(t *testing.T, body string, environ ...string) *command {
	t.Helper()
	path := filepath.Join(t.TempDir(), "give key") // a shell would take it apart
	expect.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700))
	return newCommand("acme", []string{path, "a b", "$HOME"}, append(environ, "PATH="+os.Getenv("PATH")))
}

func TestCommandGivesKey(t *testing.T) {
	for name, body := range map[string]string{
		"a line":            "echo " + secret,
		"no line end":       "printf %s " + secret,
		"JSON":              `echo '{"api_key": "` + secret + `", "expires_at": "2999-01-01T00:00:00Z", "more": 1}'`,
		"JSON without end":  `echo '{"api_key": "` + secret + `"}'`,
		"arguments as such": `test "$1" = "a b" && test "$2" = '$HOME' && echo ` + secret,
		"with complaints":   "echo careful >&2; echo " + secret,
	} {
		t.Run(name, func(t *testing.T) {
			key, err := script(t, body).Key(t.Context())
			if err != nil || key.Reveal() != secret {
				t.Errorf("%q, %v", key.Reveal(), err)
			}
		})
	}
}

func TestCommandFails(t *testing.T) {
	for name, tc := range map[string]struct{ body, want string }{
		"fails": {"echo denied for " + secret + " >&2; exit 3",
			`"give key" ended with exit status 3: denied for [redacted]`},
		"fails with a key": {"echo " + secret + "; echo got " + secret + ", no >&2; exit 1", "got [redacted], no"},
		"escapes":          {`printf 'a\033[2Jb\n\nc' >&2; exit 1`, "a [2Jb c"},
		"nothing":          {"true", "gave a key that is empty"},
		"two lines":        {"echo a; echo " + secret, "has a character at offset 1"},
		"JSON without key": {`echo '{"token": "` + secret + `"}'`, "printed JSON without an api_key"},
		"wrong time":       {`echo '{"api_key": "` + secret + `", "expires_at": "soon"}'`, "wrong expires_at"},
		"expired": {`echo '{"api_key": "` + secret + `", "expires_at": "2001-01-01T00:00:00Z"}'`,
			"has expired"},
		"too much": {"yes " + secret + " | head -c 200000", "printed more than 64 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := script(t, tc.body).Key(t.Context())
			e, ok := errors.AsType[*state.Error](err)
			switch {
			case !ok:
				t.Fatalf("%v, want %s", err, tc.want)
			case e.Code != CodeCommandFailed:
				t.Fatalf("%+v: e.Code = %q, want %q", tc, e.Code, CodeCommandFailed)
			case e.Hint == "":
				t.Fatalf(`%+v: e.Hint = "", want another value`, tc)
			case e.Param != "providers.acme.credential.command":
				t.Fatalf(`%+v: e.Param = %q, want "providers.acme.credential.command"`, tc, e.Param)
			case !strings.Contains(e.Message, tc.want):
				t.Fatalf("%+v: e.Message = %q, want it to contain %q", tc, e.Message, tc.want)
			}
			if strings.Contains(e.Error(), "sentinel") {
				t.Errorf("the key is shown: %v", e)
			}
		})
	}
	c := newCommand("acme", []string{"no-such-program"}, []string{"PATH=/bin"})
	if _, err := c.Key(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be found") {
		t.Errorf("%v", err)
	}
}

// A command gets few variables, none of them a key.
func TestCommandEnvironment(t *testing.T) {
	c := script(t, `env | cut -d= -f1 | sort | tr '\n' ','`, "HOME=/h", "OPENAI_API_KEY="+secret,
		"AWS_SECRET_ACCESS_KEY=x", "SSH_AUTH_SOCK=/s", "HOLON_MODEL=x", "LD_PRELOAD=x")
	key, err := c.Key(t.Context())
	expect.NoError(t, err)
	for name := range strings.SplitSeq(strings.Trim(key.Reveal(), ","), ",") {
		expect.Contains(t, "the command has", " HOME PATH SSH_AUTH_SOCK PWD SHLVL _ OLDPWD ", " "+name+" ")
	}
}

// counted is a command that counts how often it runs, in its keys.
func counted(t *testing.T, expires string) *command {
	t.Helper()
	count := filepath.Join(t.TempDir(), "count")
	return script(t, `n=$(cat '`+count+`' 2>/dev/null || echo 0); n=$((n+1)); echo $n > '`+count+`'
printf '{"api_key": "key-%s"`+expires+`}' $n`)
}

func TestCommandIsCached(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		expires string
		after   time.Duration
		want    string
	}{
		"for ever":        {"", 1000 * time.Hour, "key-1"},
		"until its end":   {`, "expires_at": "2026-01-01T01:00:00Z"`, 50 * time.Minute, "key-1"},
		"not to its last": {`, "expires_at": "2026-01-01T01:00:00Z"`, time.Hour - time.Second, "key-2"},
	} {
		t.Run(name, func(t *testing.T) {
			c := counted(t, tc.expires)
			c.now = func() time.Time { return now }
			first, err := c.Key(t.Context())
			if err != nil || first.Reveal() != "key-1" {
				t.Fatalf("%q, %v", first.Reveal(), err)
			}
			c.now = func() time.Time { return now.Add(tc.after) }
			if key, err := c.Key(t.Context()); err != nil || key.Reveal() != tc.want {
				t.Errorf("%q, %v", key.Reveal(), err)
			}
		})
	}
}

// A key that was refused is asked for once, however many requests it failed.
func TestCommandIsAskedAgain(t *testing.T) {
	c := counted(t, "")
	refused, err := c.Key(t.Context())
	expect.NoError(t, err)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if key, err := c.Renew(t.Context(), refused); err != nil || key.Reveal() != "key-2" {
				t.Errorf("%q, %v", key.Reveal(), err)
			}
		})
	}
	group.Wait()
	if key, err := c.Key(t.Context()); err != nil || key.Reveal() != "key-2" {
		t.Errorf("%q, %v", key.Reveal(), err)
	}
}

// A command that hangs is ended with what it started.
func TestCommandHangs(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	body := "sleep 1000 & echo $! > '" + pids + "'; wait"
	c := script(t, body)
	c.timeout = 300 * time.Millisecond
	_, err := c.Key(t.Context())
	if e, ok := errors.AsType[*state.Error](err); !ok || !strings.Contains(e.Message, "took longer than 300ms") {
		t.Fatalf("%v", err)
	}
	data, err := os.ReadFile(pids)
	if err != nil {
		t.Skip("the machine was too slow to start it")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Skip("the machine was too slow to start it")
	}
	for deadline := time.Now().Add(10 * time.Second); alive(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := script(t, "sleep 1000").Key(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// alive reports whether a process runs. A zombie does not.
func alive(pid int) bool {
	st, err := procfs.ReadStat(pid)
	return err == nil && st.Running()
}

// Any output of a program either gives a key that can be sent or an error that does not show it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{secret, `{"api_key": "k", "expires_at": "2999-01-01T00:00:00Z"}`, "{", "a\nb", "\xff",
		`{"api_key": "a b"}`} {
		f.Add([]byte(seed))
	}
	c := newCommand("acme", []string{"x"}, nil)
	f.Fuzz(func(t *testing.T, out []byte) {
		key, _, err := c.parse(out)
		if err == nil && Check(key) != nil {
			t.Errorf("%q gives a key that is none", out)
		}
		if err != nil && !key.IsZero() && Check(key) == nil {
			t.Errorf("%q: %v, with a key", out, err)
		}
	})
}

// FuzzDecode checks that an error shows nothing of the file.
func FuzzDecode(f *testing.F) {
	f.Add(`{"profiles": {"a": {"api_key": "`)
	f.Add(`{"profiles": {"a": {"api_key": 5}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		_, err := Store{path: "/home/credentials.json"}.decode([]byte(text + secret + `"}}}`))
		if err != nil && strings.Contains(err.Error(), "sentinel") {
			t.Errorf("%v", err)
		}
	})
}
