package home_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holon/internal/redact"
	"holon/runner/agent/home"
	"holon/test/expect"
)

// A plan is read as what a stranger wrote: plain text of a fair size, and through no link.
func TestPlan(t *testing.T) {
	for name, c := range map[string]struct {
		make    func(dir string) error // of the item
		refused string
		bytes   int64
	}{
		"seeded": {func(string) error { return nil }, "", 5},
		"a link": {func(dir string) error {
			return replace(dir, func(plan string) error { return os.Symlink("/etc/hostname", plan) })
		}, "it is not a plain file", 0},
		"a pipe": {func(dir string) error {
			return replace(dir, func(plan string) error { return syscall.Mkfifo(plan, 0o600) })
		}, "it is not a plain file", 0},
		"a folder": {func(dir string) error {
			return replace(dir, func(plan string) error { return os.Mkdir(plan, 0o700) })
		}, "it is not a plain file", 0},
		"a link to its folder": {func(dir string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.Symlink("/etc", dir)
		}, "it is not a plain file", 0},
		"a huge one": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "plan.md"), make([]byte, home.MaxPlan+1), 0o600)
		}, "it has more than", 0},
		"no text": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "plan.md"), []byte("\xff"), 0o600)
		}, "it is not UTF-8 text", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			h := r.homes
			expect.NoError(t, h.Create(t.Context(), "alpha", ""))
			if h.Plan("alpha", "work_1") != nil {
				t.Error("there is a plan before there is one")
			}
			for _, text := range []string{"first", "second"} { // the first stays
				expect.NoError(t, h.SeedPlan(t.Context(), "alpha", "work_1", text))
			}
			expect.NoError(t, c.make(filepath.Join(r.state.AgentDir("alpha"), "work-items", "work_1")))
			p := h.Plan("alpha", "work_1")
			if p == nil || !strings.HasPrefix(p.Refused, c.refused) || c.refused == "" && p.Refused != "" ||
				p.Bytes != c.bytes {
				t.Errorf("plan %+v, want refused %q, %d bytes", p, c.refused, c.bytes)
			}
		})
	}
}

func replace(dir string, with func(plan string) error) error {
	plan := filepath.Join(dir, "plan.md")
	if err := os.Remove(plan); err != nil {
		return err
	}
	return with(plan)
}

// A secret is in no text, not even where the bound of what is read cuts it.
func TestTextHidesSecrets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var secrets redact.Set
	secrets.Add("KEY", "correct-horse-battery")
	h := home.New(home.Options{Home: r.state, Secrets: &secrets})
	expect.NoError(t, r.homes.Create(t.Context(), "alpha", ""))
	path := filepath.Join(r.state.AgentDir("alpha"), "memory", "self.md")
	for name, c := range map[string]struct {
		before int // bytes before the secret
		want   string
	}{"whole": {10, redact.Mask + "!"}, "at the end": {home.MaxPlan - 22, redact.Mask + "!"}, "cut": {home.MaxPlan - 5, "x"},
		"behind it": {home.MaxPlan, "x"}} {
		expect.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", c.before)+"correct-horse-battery!"), 0o600))
		text, _, err := h.Text("alpha", "memory/self.md")
		expect.NoError(t, err)
		expect.Equal(t, name, strings.TrimLeft(text, "x"), strings.TrimLeft(c.want, "x"))
	}
}

// A file that the runtime may not read is not said to be something else.
func TestPlanError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{{syscall.EACCES, "its permissions"}, {syscall.ELOOP, "it is not a plain file"}, {syscall.ENOENT, "file does not exist"}} {
		if got := home.PlanError(c.err).Error(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
