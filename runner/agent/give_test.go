package agent_test

import (
	"context"
	"path/filepath"
	"testing"

	"holon/runner/agent"
	"holon/state/ledger"
	"holon/test/expect"
)

// spare are the leases of a process that has one agent too many, until that is given up.
type spare struct {
	ledger.Alone
	given chan string
}

func (s spare) Give(_ context.Context, leave func(string, func() error) error) error {
	return leave("main", func() error { note(s.given, "given"); return nil })
}

// note sends what was done, unless the test has seen enough.
func note(to chan<- string, what string) {
	select {
	case to <- what:
	default:
	}
}

// savedFiles are files of which it is noted what was saved.
type savedFiles struct{ given chan string }

func (savedFiles) Own(context.Context, string) error            { return nil }
func (savedFiles) Load(context.Context, string, []string) error { return nil }
func (f savedFiles) Save(_ context.Context, id string) error    { note(f.given, "saved "+id); return nil }

// An agent that is idle is given up where it has no container, once its files are saved where each host has its own.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"one home": "", "files in a bucket": "saved main"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := make(chan string, 100)
			l := newAlone(t, filepath.Join(t.TempDir(), "ledger.db"), stillHomes{}, func(c *agent.Config) {
				c.Leases = spare{given: given}
				c.WithoutContainers = func(_ string, job func() error) error { return job() }
				if want != "" {
					c.Files = savedFiles{given}
				}
			})
			defer l.close()
			before := ""
			for got := <-given; got != "given"; got = <-given {
				before = got
			}
			expect.Equal(t, "done before", before, want)
		})
	}
}
