package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner/engine"
	"holon/runner/engine/local"
	"holon/state"
	"holon/test/expect"
)

// boxed is an engine whose programs have their own file system, as far as runAs
// asks.
type boxed struct{ engine.Engine }

func (boxed) Path(_ []engine.Mount, target string) string { return target }

func TestUserRunAs(t *testing.T) {
	open, err := local.New(local.Options{Dir: filepath.Join(t.TempDir(), "local")})
	expect.NoError(t, err)
	defer open.Close()
	self := engine.User{UID: os.Geteuid(), GID: os.Getegid()}
	standard, other := engine.User{UID: self.UID, GID: defaultGID}, engine.User{UID: 4711, GID: 4712}
	if self.UID == 0 {
		standard = engine.User{UID: defaultUID, GID: defaultGID}
	}
	for name, test := range map[string]struct {
		engine engine.Engine
		asked  *engine.User
		want   *engine.User
		fails  bool
	}{
		"default":           {boxed{}, nil, &standard, false},
		"self":              {boxed{}, &self, &self, false},
		"other":             {boxed{}, &other, &other, self.UID != 0},
		"unconfined":        {open, nil, nil, false},
		"self, unconfined":  {open, &self, nil, false},
		"other, unconfined": {open, &other, nil, true},
	} {
		got, err := RunsAs(test.asked, test.engine)
		if test.fails {
			if !state.IsCode(err, CodeUsage) || got != nil {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		} else if err != nil || (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, test.want)
		}
	}
}

// Every number and name stands once, for every user.
func TestAccounts(t *testing.T) {
	for _, user := range []engine.User{{UID: 65532, GID: 65532}, {}, {UID: 1000}, {UID: 65534, GID: 65534},
		{UID: 501, GID: 20}} {
		dir := t.TempDir()
		expect.NoError(t, os.Mkdir(filepath.Join(dir, "etc"), 0o700))
		expect.NoError(t, writeAccounts(dir, user))
		for file, wantFields := range map[string]int{"passwd": 7, "group": 4} {
			data, err := os.ReadFile(filepath.Join(dir, "etc", file))
			expect.NoError(t, err)
			seen := map[string]bool{}
			for line := range strings.Lines(string(data)) {
				fields := strings.Split(strings.TrimSuffix(line, "\n"), ":")
				if len(fields) != wantFields || seen[fields[0]] || seen[fields[2]] {
					t.Errorf("%+v: %s: %q", user, file, line)
					continue
				}
				seen[fields[0]], seen[fields[2]] = true, true
			}
			if !strings.HasPrefix(string(data), accountName+":") || !seen["0"] {
				t.Errorf("%+v: %s: %s", user, file, data)
			}
		}
	}
}

func TestMayEnter(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	for _, test := range []struct {
		mode     os.FileMode
		uid, gid int
		want     bool
	}{
		{0o755, 0, 0, true}, {0o700, 0, 0, false}, {0o700, 4711, 0, true}, {0o050, 0, 4712, true},
		{0o077, 4711, 0, false}, {0o001, 0, 0, false}, {0o705, 0, 4712, false},
	} {
		expect.NoError(t, os.Chmod(dir, test.mode))
		expect.NoError(t, os.Lchown(dir, test.uid, test.gid))
		if got := mayEnter(engine.User{UID: 4711, GID: 4712}, dir); got != test.want {
			t.Errorf("%v of %d:%d: %v", test.mode, test.uid, test.gid, got)
		}
	}
}
