package agentd_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/agentd"
	"holon/agentd/config"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// logged is how many bytes the commands of a turn left in files.
func (h *harness) logged(turnID string) (total int64) {
	h.t.Helper()
	err := filepath.WalkDir(h.file(turnID, "tools"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		total += info.Size()
		return err
	})
	expect.NoError(h.t, err)
	return total
}

// Commands that flood, one after the other and one of them as a task, leave in
// files what a turn and all turns may, this start and the next; every byte is
// counted, and the model is told what the files lack.
func TestOutputOnDiskIsBounded(t *testing.T) {
	t.Parallel()
	const turn, all = 500_000, 700_000
	dir := shortDir(t)
	bounds := func(c *config.Config, _ *agentd.Parts) { c.Commands.TurnLogBytes, c.Commands.LogBytes = turn, all }
	h := startIn(t, dir, bounds)
	const flood = `
turns:
  - rounds:
      - calls:
          - {tool: ExecCommand, arguments: {cmd: 'head -c 1000000 /dev/zero', max_output_tokens: 100}}
          - {tool: ExecCommand, arguments: {cmd: 'head -c 1000000 /dev/zero >&2; sleep 0.2; head -c 1000000 ` +
		`/dev/zero', yield_time_ms: 1}}
      - calls: [{tool: ExecCommand, arguments: {cmd: 'head -c 1000000 /dev/zero'}}]
      - text: Done.
`
	run := func(turnID string) string {
		t.Helper()
		a := h.post(fmt.Sprintf(`{"model":%q,"input":"go","holon":{"turn_id":%q}}`, h.scenario("flood", flood), turnID))
		if resp := a.response(t); resp.Status != responses.StatusCompleted {
			t.Fatalf("%s: %+v", resp.Status, resp.Error)
		}
		eventually(t, "the task ends", func() bool {
			return !strings.Contains(string(h.do("GET", "/tasks", "").body), `"running"`)
		})
		facts := h.read(turnID, turns.RuntimeFile)
		return string(facts)
	}

	told := run("turn_a")
	if got := h.logged("turn_a"); got != turn {
		t.Errorf("the first turn left %d bytes, and may leave %d", got, turn)
	}
	for _, note := range []string{"the log file holds the first 500000 of 1000000 bytes",
		"may take no more of the disk"} {
		if !strings.Contains(told, note) {
			t.Errorf("the model is not told: %s\n%.3000s", note, told)
		}
	}
	run("turn_b")
	if got := h.logged("turn_b"); got != all-turn {
		t.Errorf("the second turn left %d bytes of the %d that were left", got, all-turn)
	}

	// The files that are there count at the next start, too.
	expect.NoError(t, h.stop())
	h = startIn(t, dir, bounds)
	run("turn_c")
	if got := h.logged("turn_c"); got != 0 {
		t.Errorf("the third turn left %d bytes, and none were left", got)
	}
	// The bytes of a turn that is removed are given back at the next count.
	expect.NoError(t, h.stop())
	h = startIn(t, dir, bounds)
	expect.NoError(t, os.RemoveAll(filepath.Join(h.cfg.Dirs.Output, "turns", "turn_a")))
	n := 0
	eventually(t, "the bytes are given back", func() bool {
		n++
		id := fmt.Sprintf("turn_d%d", n)
		run(id)
		return h.logged(id) > 0
	})
}
