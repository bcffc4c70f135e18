package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"holon/test/expect"
)

// lists are the commands that list things, with the head of their table.
var lists = map[string][]string{
	"ps":               {"RUN", "AGE", "OUTCOME", "WORKSPACE", "NAME", "TASK"},
	"agent list":       {"AGENT", "STATUS", "POSTURE", "PENDING", "MODEL", "LAST BRIEF", "SANDBOX"},
	"queue list":       {"MESSAGE", "FROM", "PRIORITY", "CAME", "STATE", "TEXT"},
	"work list":        {"ITEM", "STATE", "TODO", "CHANGED", "OBJECTIVE"},
	"memory search":    {"SOURCE", "KIND", "CHANGED", "TITLE", "TEXT"},
	"task list":        {"TASK", "STATUS", "STARTED", "CHANGED", "COMMAND"},
	"timer list":       {"TIMER", "AGENT", "STATUS", "NEXT", "EVERY", "FIRED", "SUMMARY"},
	"notify list":      {"BINDING", "AGENT", "TRANSPORT", "STATUS", "INGRESS", "URL"},
	"notify log":       {"NOTIFICATION", "FROM", "AT", "STATUS", "DELIVERY", "SUMMARY"},
	"workspace list":   {"WORKSPACE", "ALIAS", "STATE", "COPIES", "PATH"},
	"session list":     {"SESSION", "NAME", "OWNER", "STATE", "USED", "MODEL", "WORKSPACE"},
	"session turns":    {"RESPONSE", "AFTER", "AT", "STATUS", "FILES", "INPUT", "ANSWER"},
	"skills list":      {"SKILL", "STATE", "DIGEST", "SOURCE"},
	"models":           {"MODEL", "ROLE", "CONTRACT", "WINDOW", "ANSWER", "KEY"},
	"models list":      {"MODEL", "ROLE", "CONTRACT", "WINDOW", "ANSWER", "KEY"},
	"providers list":   {"PROVIDER", "CONTRACT", "ENDPOINT", "KEY"},
	"credentials list": {"SOURCE", "NAME", "KEY", "USED BY"},
	"config list":      {"KEY", "VALUE", "SOURCE"},
	"debug latency":    {"TURN", "ENDED", "QUEUED", "BEGIN", "TOOK", "MODELS", "TOOLS", "ROUNDS", "CALLS"},
}

// Each command that lists things has --json and --no-header; the lists are all there are.
func TestListCommands(t *testing.T) {
	var found []string
	walk(newRoot(notTerminals(nil, nil)), func(cmd *cobra.Command) {
		if name := strings.TrimPrefix(cmd.CommandPath(), "holon "); cmd.Name() == "list" || lists[name] != nil ||
			cmd.Flags().Lookup("no-header") != nil {
			found = append(found, name)
			if cmd.Flags().Lookup("no-header") == nil || cmd.Flags().Lookup("json") == nil {
				t.Errorf("holon %s lacks --json or --no-header", name)
			}
			if lists[name] == nil {
				t.Errorf("holon %s is not in the test's table", name)
			}
		}
	})
	if len(found) != len(lists) {
		t.Errorf("the commands that list are %q, the test's table has %d", found, len(lists))
	}
}

// A list is a JSON list or object with --json, cells between tabs in a pipe, and has its head on a terminal only, and
// not there with --no-header.
func TestListsArePrinted(t *testing.T) {
	t.Parallel()
	dir, command := localRuns(t, "rounds:\n  - text: Done.\n")
	with := oneOfEach(t, dir, command)
	for name, head := range lists {
		if strings.HasPrefix(name, "session ") { // in TestSessionCommands
			continue
		}
		t.Run(name, func(t *testing.T) {
			args := strings.Fields(name)
			switch name {
			case "ps":
				args = append(args, "--all")
			case "memory search":
				args = append(args, "secrets") // of which its files have none, as they say
			}
			piped, err := with(args...).Output()
			bare, err2 := with(append(args, "--no-header")...).Output()
			if err != nil || err2 != nil || string(piped) != string(bare) {
				t.Fatalf("%v, %v\n%s\n--no-header:\n%s", err, err2, piped, bare)
			}
			rows := strings.Split(strings.TrimSuffix(string(piped), "\n"), "\n")
			for _, row := range rows {
				cells := strings.Split(row, "\t")
				padded := slices.ContainsFunc(
					cells,
					func(s string) bool { return s == "" || strings.TrimSpace(s) != s },
				)
				if len(cells) != len(head) || padded {
					t.Errorf("a line in a pipe is %q, want %d cells", row, len(head))
				}
			}
			if text, err := with(append(args, "--json")...).Output(); err != nil || !json.Valid(text) {
				t.Errorf("--json prints %s (%v)", text, err)
			}
			shown, err := atTerminal(t, with(args...), "", "")
			if names := headOf(shown); err != nil || !slices.Equal(names, head) {
				t.Errorf("the head at a terminal is %q (%v), want %q", names, err, head)
			}
			shown, err = atTerminal(t, with(append(args, "--no-header")...), "", "")
			if strings.HasPrefix(shown, head[0]+" ") || shown == "" || err != nil {
				t.Errorf("--no-header prints at a terminal (%v)\n%s", err, shown)
			}
		})
	}
}

// headOf are the names in the head of a table, which goes on in lines that are indented.
func headOf(shown string) (names []string) {
	for i, line := range strings.Split(shown, "\r\n") {
		if i > 0 && !strings.HasPrefix(line, "    ") {
			break
		}
		names = append(names, columnsOf(line)...)
	}
	return names
}

// columnsOf are the names in a head: more than one space stands between them.
func columnsOf(line string) (names []string) {
	for name := range strings.SplitSeq(line, "  ") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// oneOfEach makes a home where every list has a line: a run, a skill, a key, and a daemon with a turn, a timer and a
// message that waits. It returns commands in that home.
func oneOfEach(t *testing.T, dir string,
	command func(...string) *exec.Cmd) (with func(args ...string) *exec.Cmd) {
	t.Helper()
	with = func(args ...string) *exec.Cmd {
		cmd := command(args...)
		cmd.Env = append(cmd.Env, "OPENAI_API_KEY=sk-0123456789abcdef")
		return cmd
	}
	skill := filepath.Join(dir, "pdf")
	expect.NoError(t, os.Mkdir(skill, 0o700))
	about := []byte("---\nname: pdf\ndescription: Reads documents.\n---\nRead.\n")
	expect.NoError(t, os.WriteFile(filepath.Join(skill, "SKILL.md"), about, 0o600))
	startDaemon(t, dir, with)
	for _, args := range [][]string{{"run", "--quiet", "--name", "a", "x"}, {"skills", "install", skill}, {"prompt", "--follow", "--quiet", "x"}, {"timer", "--after", "9h", "--summary", "s"},
		{"work", "add", "x"}, {"notify", "bind", "phone", "--url", "https://127.0.0.1:9"}, {"notify", "bind", "gone", "--url", "https://127.0.0.1:9"}, {"notify", "revoke", "gone"},
		{"workspace", "attach", skill}, {"task", "run", "sleep 600"},
		{"agent", "model", "set", "--force", "main", "anthropic/m"}, {"prompt", "wait for a key"}} {
		succeed(t, with(args...))
	}
	if err := with("notify", "test", "phone").Run(); err == nil {
		t.Error("a notification came to an address that the binding does not allow")
	}
	// the message is blocked only once the agent has tried it
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		out, err := with("agent", "list").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if strings.Contains(string(out), "\tblocked\t") {
			return with
		}
	}
	t.Fatal("the agent is not blocked within a minute")
	return nil
}
