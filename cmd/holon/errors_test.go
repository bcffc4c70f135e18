package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"holon/test/expect"
	"holon/test/programs"
)

var update = flag.Bool("update", false, "write the golden files")

const errorsFile, scriptErrorsFile = "testdata/errors.txtar", "testdata/scripterrors.txtar"

// errorCase is a command line of the golden file and what it prints, behind its exit code.
type errorCase struct{ command, want, got string }

// The exact words of errors are once in the repository, in the golden file. Each line there that begins with "$ " is a
// command line for sh. It runs in a directory with the files below, and the lines that follow are its exit code and
// what it prints. The commands run side by side, and nothing is left of a run that could not start.
func TestErrors(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile(errorsFile)
	expect.NoError(t, err)
	dir := t.TempDir()
	expect.NoError(t, txtar.Write(archive, dir))
	cases := errorCases(string(archive.Comment))
	t.Run("of", func(t *testing.T) {
		for _, c := range cases {
			if c.command == "" {
				continue
			}
			t.Run(c.command, func(t *testing.T) {
				t.Parallel()
				c.got = c.run(t, dir)
				if c.got != c.want && !*update {
					t.Errorf("got\n%swant, as in %s (-update writes it)\n%s", c.got, errorsFile, c.want)
				}
			})
		}
	})
	for _, pattern := range []string{"home/runs/run_*", "home/ipc/run_*", "home/local/*", "w/state", "made"} {
		if left, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(left) > 0 {
			t.Errorf("%q is left, %v", left, err)
		}
	}
	if *update {
		var b bytes.Buffer
		for _, c := range cases {
			if c.command != "" {
				fmt.Fprintf(&b, "$ %s\n", c.command)
			}
			b.WriteString(c.got)
		}
		archive.Comment = b.Bytes()
		expect.NoError(t, os.WriteFile(errorsFile, txtar.Format(archive), 0o644))
	}
}

// errorCases reads the golden file. What stands between the cases is a case without a command.
func errorCases(text string) (cases []*errorCase) {
	for line := range strings.Lines(text) {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case isCommand:
			cases = append(cases, &errorCase{command: strings.TrimSuffix(command, "\n")})
		case line == "\n" || strings.HasPrefix(line, "#"):
			cases = append(cases, &errorCase{got: line})
		default:
			cases[len(cases)-1].want += line
		}
	}
	return cases
}

// run returns the exit code and what the command prints, without what differs from one run of the test to the next.
func (c *errorCase) run(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", c.command)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + filepath.Dir(programs.Must("holon")) + string(filepath.ListSeparator) + os.Getenv("PATH"),
		"HOLON_HOME=" + filepath.Join(dir, "home"), "HOLON_AGENTD=" + programs.Must("agentd"), "HOME=" + dir,
		"WORK=" + dir, "TMPDIR=" + t.TempDir()}
	var out bytes.Buffer
	cmd.Stderr = &out
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); !ok {
		t.Errorf("it ends with %v, want an error\n%s", err, out.String())
	} else if !errorLine.Match(out.Bytes()) {
		t.Errorf("it prints not one line \"holon: FIELD: what; remedy\":\n%s", out.String())
	}
	return fmt.Sprintf("%d %s", cmd.ProcessState.ExitCode(), normalised(out.String(), dir))
}

// scriptErrors are the errors that the commands "fails" of each script see, one a line and in their order. A file of
// its own holds them, for they need what the script did before.
type scriptErrors struct {
	mu   sync.Mutex
	want map[string]string
}

// linesKey is the key of the errors of a script, in its values.
type linesKey struct{}

func readScriptErrors(t *testing.T) *scriptErrors {
	t.Helper()
	archive, err := txtar.ParseFile(scriptErrorsFile)
	expect.NoError(t, err)
	e := &scriptErrors{want: map[string]string{}}
	for _, f := range archive.Files {
		e.want[f.Name] = string(f.Data)
	}
	t.Cleanup(func() {
		if !*update {
			return
		}
		archive.Files = nil
		for _, script := range slices.Sorted(maps.Keys(e.want)) {
			archive.Files = append(archive.Files, txtar.File{Name: script, Data: []byte(e.want[script])})
		}
		if err := os.WriteFile(scriptErrorsFile, txtar.Format(archive), 0o644); err != nil {
			t.Error(err)
		}
	})
	return e
}

// check compares the errors of a script with those recorded. Without an engine a script ends early and has fewer.
func (e *scriptErrors) check(t *testing.T, script string, lines []string) {
	t.Helper()
	got := strings.Join(lines, "")
	e.mu.Lock()
	defer e.mu.Unlock()
	if *update && len(lines) > 0 {
		e.want[script] = got
	} else if !strings.HasPrefix(e.want[script], got) {
		t.Errorf("the errors of %s are\n%s\nwant, as in %s (-update writes it)\n%s", script, got, scriptErrorsFile,
			e.want[script])
	}
}

// differs is what is not the same in two runs of the tests, behind what is: ids or a part of one, ports, sizes,
// digests.
var differs = regexp.MustCompile(`(\b(?:run|ses|msg|task|work|turn|tmr|ws)_)[a-z0-9]{12,}|(neither ")[a-z0-9]\b|` +
	`(127\.0\.0\.1:)\d{4,}|(process )\d+|(\b)[0-9a-f]{12,}|()[0-9.]+ .iB|(skill-)\d+`)

// normalised is an error without what differs.
func normalised(text, dir string) string {
	return differs.ReplaceAllString(strings.ReplaceAll(text, dir, "$WORK"), "$1$2$3$4$5$6$7…")
}
