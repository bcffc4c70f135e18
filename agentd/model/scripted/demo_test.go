package scripted_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/responses"
	"holon/test/expect"
)

// The demo repairs its project, and says so honestly where it cannot.
func TestDemo(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git to apply the patch")
	}
	project := filepath.Join("..", "..", "..", "cmd", "holon", "demo", "project")
	tests := []struct {
		name    string
		prepare func(dir string) error
		calls   int
		want    string
		repairs bool
	}{
		{"repairs the project", func(string) error { return nil }, 5, "The test passes now.", true},
		{"nothing to repair", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "test.sh"), []byte("echo fine\n"), 0o600)
		}, 3, "passes already", false},
		{"the file is another", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "src", "slug.sh"), []byte("slugify() { echo x; }\n"), 0o600)
		}, 4, "could not be applied", false},
		{"another repository", func(dir string) error {
			return os.RemoveAll(filepath.Join(dir, "src"))
		}, 1, "I changed nothing. The working tree begins with:\n\nProcess exited with code 0", false},
	}
	tr, _ := open(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			expect.NoError(t, os.CopyFS(dir, os.DirFS(project)))
			expect.NoError(t, tt.prepare(dir))
			answer, calls := converse(t, tr, dir)
			if calls != tt.calls || !strings.Contains(answer, tt.want) {
				t.Errorf("%d calls, answer %q; want %d and %q", calls, answer, tt.calls, tt.want)
			}
			err := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "test.sh")).Run()
			if tt.repairs && err != nil {
				t.Errorf("the test of the project still fails: %v", err)
			}
		})
	}
}

// converse runs the demo in dir with simple tools and returns its answer.
func converse(t *testing.T, tr model.Transport, dir string) (answer string, calls int) {
	t.Helper()
	input := []responses.Item{user("fix the failing test")}
	for range 10 {
		events, err := collect(t.Context(), tr, model.Request{Model: "demo", Input: input})
		expect.NoError(t, err)
		text := summarise(events).Text
		input = append(input, said(text))
		before := calls
		for _, ev := range events {
			if ev.Kind == model.CallEnd {
				calls++
				input = append(input, execute(t, dir, ev))
			}
		}
		if calls == before {
			return text, calls
		}
	}
	t.Fatal("the demo does not end")
	return "", 0
}

func execute(t *testing.T, dir string, ev model.Event) responses.Item {
	t.Helper()
	var args struct{ Cmd, Patch string }
	expect.NoError(t, json.Unmarshal([]byte(ev.Text), &args))
	cmd := exec.CommandContext(t.Context(), "sh", "-c", args.Cmd)
	if ev.Name == "ApplyPatch" {
		cmd = exec.CommandContext(t.Context(), "git", "apply", "-")
		cmd.Stdin = strings.NewReader(args.Patch)
	}
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	exit := cmd.ProcessState.ExitCode()
	if ev.Name == "ExecCommand" {
		return ran(ev.CallID, exit, string(out))
	}
	if err != nil {
		return tool(ev.CallID, ev.Name, patchFailed, string(out))
	}
	return tool(ev.CallID, ev.Name, `{"tool_name":"ApplyPatch","status":"success","summary_text":"","result":{},`+
		`"error":null}`, "Updated 1 file")
}
