package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"holon/agentd/process"
	"holon/agentd/tools"
	"holon/test/expect"
)

// The file of a stream is bounded, and the result says where the file ends and
// why.
func TestLogsAreBounded(t *testing.T) {
	h := newHarness(t, shortLogs)
	h.env.Disk = process.NewBudget(70_000, nil)
	for _, want := range []string{
		"stdout: the log file holds the first 50000 of 100000 bytes\n",
		"stdout: the log file holds the first 20000 of 100000 bytes: the files of the turn may take no more of " +
			"the disk\n",
		"stdout: the log file holds the first 0 of 100000 bytes: the files of the turn may take no more of the disk",
	} {
		o := h.run(t, map[string]any{"cmd": "head -c 100000 /dev/zero"})
		if o.Canonical.Error != nil || !strings.Contains(o.Rendered, "Note: "+want) {
			t.Errorf("%+v\n%s\nlacks %q", o.Canonical.Error, o.Rendered, want)
		}
	}
}

func TestReceipts(t *testing.T) {
	h := newHarness(t)
	link := filepath.Join(h.env.WorkDir, "link")
	expect.NoError(t, os.Symlink("sub", link))
	tests := []struct {
		args map[string]any
		want string
	}{
		{map[string]any{"cmd": "echo hello"}, "Process exited with code 0\nstdout:\nhello"},
		{map[string]any{"cmd": "true"}, "Process exited with code 0\n(no output)"},
		{map[string]any{"cmd": "printf a; printf b >&2; exit 3"}, "Process exited with code 3\nstdout:\na\nstderr:\nb"},
		{map[string]any{"cmd": `echo '{"a": "b"}'`}, "Process exited with code 0\nstdout:\n{\"a\": \"b\"}"},
		{map[string]any{"cmd": "basename $PWD", "workdir": "sub"}, "Process exited with code 0\nstdout:\nsub"},
		{map[string]any{"cmd": "basename $PWD", "workdir": "link"}, "Process exited with code 0\nstdout:\nlink"},
		{map[string]any{"cmd": "basename $PWD", "workdir": filepath.Join(h.env.WorkDir, "sub")},
			"Process exited with code 0\nstdout:\nsub"},
		{map[string]any{"cmd": "kill -9 $$"},
			"Process exited with code 137\n(command was killed by signal 9 (SIGKILL))\n(no output)"},
		{map[string]any{"cmd": "echo missing >&2; exit 127", "shell": "sh"},
			"Process exited with code 127\nstderr:\nmissing"},
		{map[string]any{"cmd": "sleep 100 & echo $0", "shell": "/bin/sh"},
			"Process exited with code 0\nstdout:\n/bin/sh\nNote: 1 process(es) that the command left running " +
				"were ended"},
		{map[string]any{"cmd": "cat; tty", "yield_time_ms": nil, "login": false},
			"Process exited with code 1\nstdout:\nnot a tty"},
		{map[string]any{"cmd": "printf 'red \\033[31mx\\033[0m\\r\\nNUL \\000 bad \\377'"},
			"Process exited with code 0\nstdout:\nred x\nNUL ^@ bad \ufffd"},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, h.run(t, tt.args).Rendered); diff != "" {
			t.Errorf("%v:\n%s", tt.args, diff)
		}
	}
}

func TestErrors(t *testing.T) {
	h := newHarness(t)
	for name, target := range map[string]string{"out": "..", "abs": "/etc", "file": "/dev/null"} {
		expect.NoError(t, os.Symlink(target, filepath.Join(h.env.WorkDir, name)))
	}
	expect.NoError(t, os.WriteFile(filepath.Join(h.env.WorkDir, "plain"), nil, 0o600))
	tests := []struct {
		args        map[string]any
		kind, field string
	}{
		{map[string]any{}, tools.KindInvalidInput, "cmd"},
		{map[string]any{"cmd": ""}, tools.KindInvalidInput, "cmd"},
		{map[string]any{"cmd": " \n"}, tools.KindInvalidInput, "cmd"},
		{map[string]any{"cmd": "a\x00b"}, tools.KindInvalidInput, "cmd"},
		{map[string]any{"cmd": strings.Repeat("x", maxCommandBytes+1)}, tools.KindInvalidInput, "cmd"},
		{map[string]any{"cmd": []string{"ls"}}, tools.KindInvalidInput, "cmd"},
		{map[string]any{"cmd": "ls", "tty": "yes"}, tools.KindInvalidInput, "tty"},
		{map[string]any{"cmd": "ls", "timeout_ms": 1000}, tools.KindInvalidInput, "timeout_ms"},
		{map[string]any{"cmd": "ls", "yield_time_ms": 0}, tools.KindInvalidInput, "yield_time_ms"},
		{map[string]any{"cmd": "ls", "yield_time_ms": 3_600_001}, tools.KindInvalidInput, "yield_time_ms"},
		{map[string]any{"cmd": "ls", "duplicate_policy": "never"}, tools.KindInvalidInput, "duplicate_policy"},
		{map[string]any{"cmd": "ls", "shell": "python3"}, tools.KindInvalidInput, "shell"},
		{map[string]any{"cmd": "ls", "shell": "./bash"}, tools.KindInvalidInput, "shell"},
		{map[string]any{"cmd": "ls", "shell": "/nowhere/bash"}, kindSpawn, "shell"},
		{map[string]any{"cmd": "ls", "workdir": "../other-repo"}, tools.KindRootViolation, "workdir"},
		{map[string]any{"cmd": "ls", "workdir": "/etc"}, tools.KindRootViolation, "workdir"},
		{map[string]any{"cmd": "ls", "workdir": "sub/../.."}, tools.KindRootViolation, "workdir"},
		{map[string]any{"cmd": "ls", "workdir": "out"}, tools.KindRootViolation, "workdir"},
		{map[string]any{"cmd": "ls", "workdir": "abs"}, tools.KindRootViolation, "workdir"},
		{map[string]any{"cmd": "ls", "workdir": "file"}, tools.KindRootViolation, "workdir"},
		{map[string]any{"cmd": "ls", "workdir": "a\x00b"}, kindWorkdir, "workdir"},
		{map[string]any{"cmd": "ls", "workdir": "none"}, kindWorkdir, "workdir"},
		{map[string]any{"cmd": "ls", "workdir": "plain"}, kindWorkdir, "workdir"},
		{map[string]any{"cmd": "ls", "workdir": "plain/x"}, kindWorkdir, "workdir"},
	}
	for _, tt := range tests {
		refused(t, fmt.Sprint(tt), h.run(t, tt.args).Canonical.Error, tt.kind, tt.field)
	}
	e := h.run(t, map[string]any{"cmd": ""}).Canonical.Error
	expect.Equal(t, "the message", e.Message, `argument "cmd" does not match the schema: the text must not be empty`)
}

// A command whose trace cannot be recorded is refused with the reason, and the disk that is full with a kind of its
// own.
func TestUnrecordedCommands(t *testing.T) {
	for _, tt := range []struct {
		cause     error
		kind      string
		retryable bool
	}{
		{unix.ENOSPC, kindDiskFull, true}, {unix.EDQUOT, kindDiskFull, true}, {unix.EROFS, kindSpawn, false},
	} {
		err := &process.StartError{Op: "record", Path: "1", Err: &fs.PathError{Op: "write", Path: "/x", Err: tt.cause}}
		e := spawnError(err, "true", "/")
		if e.Kind != tt.kind || e.Retryable != tt.retryable || e.RecoveryHint == "" {
			t.Errorf("%v: the error is %+v, want the kind %s, retryable %v and a hint", tt.cause, e, tt.kind, tt.retryable)
		}
		if !strings.Contains(e.Message, tt.cause.Error()) {
			t.Errorf("the message is %q, want the cause %q in it", e.Message, tt.cause)
		}
	}
}

// Without tasks, a command that is not done in time is ended.
func TestTimeoutKeepsTheOutput(t *testing.T) {
	h := newHarness(t, withoutTasks)
	o := h.run(t, map[string]any{"cmd": "echo begun; echo trouble >&2; exec sleep 300", "yield_time_ms": 300})
	e := o.Canonical.Error
	if e == nil {
		t.Fatal("e = nil, want a value")
	}
	expect.Equal(t, "e.Kind", e.Kind, kindTimeout)
	expect.Equal(t, "o.Canonical.Result", string(o.Canonical.Result), "")
	expect.Equal(t, "e.Details['stdout_preview']", e.Details["stdout_preview"], "begun\n")
	expect.Equal(t, "e.Details['stderr_preview']", e.Details["stderr_preview"], "trouble\n")
	expect.Equal(t, "e.Details['timeout_ms']", e.Details["timeout_ms"], 300.0)
	if !strings.Contains(o.Rendered, `"stdout_preview":"begun\n"`) ||
		!strings.Contains(o.Rendered, `"kind":"command_timeout"`) {
		t.Errorf("rendered %s", o.Rendered)
	}
	if len(o.Artifacts) != 2 {
		t.Errorf("artifacts %v", o.Artifacts)
	}
	o = h.run(t, map[string]any{"cmd": "yes '\"\\'; sleep 300", "yield_time_ms": 300, "max_output_tokens": 60000})
	switch e := o.Canonical.Error; {
	case e == nil:
		t.Error("a flood until the deadline: e = nil, want a value")
	case e.Details["truncated"] != true:
		t.Errorf(`a flood until the deadline: e.Details["truncated"] = %v, want true`, e.Details["truncated"])
	case len(o.Rendered) > 64<<10:
		t.Errorf("a flood until the deadline: len(o.Rendered) = %d (%q), want at most %d", len(o.Rendered), o.Rendered,
			64<<10)
	}
}

func TestCanceled(t *testing.T) {
	h := newHarness(t)
	ctx, cancel := context.WithCancel(t.Context())
	file := filepath.Join(h.env.WorkDir, "up")
	go func() {
		for {
			if _, err := os.Stat(file); err == nil {
				cancel()
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	o := h.runCtx(t, ctx, map[string]any{"cmd": "echo begun; touch up; exec sleep 300"})
	switch e := o.Canonical.Error; {
	case e == nil:
		t.Error("e = nil, want a value")
	case e.Kind != tools.KindCanceled:
		t.Errorf("e.Kind = %q, want %q", e.Kind, tools.KindCanceled)
	case e.Details["stdout_preview"] != "begun\n":
		t.Errorf(`e.Details["stdout_preview"] = %v, want %q`, e.Details["stdout_preview"], "begun\n")
	}
}

func TestLongOutput(t *testing.T) {
	h := newHarness(t)
	o := h.run(t, map[string]any{"cmd": "seq 1 100000", "max_output_tokens": 500})
	if n := len(o.Rendered); n > 2600 {
		t.Errorf("%d bytes rendered of a budget of 2000", n)
	}
	for _, part := range []string{
		"stdout:\n1\n2\n3\n", "\n99999\n100000\n", "[output truncated: showing first",
		"lines of 100000, 588895 bytes in all]",
		"\nFull stdout: " + filepath.Join(h.out, "tools/call_1/stdout.log"),
	} {
		if !strings.Contains(o.Rendered, part) {
			t.Errorf("%q is missing in\n%s", part, o.Rendered)
		}
	}
	if fi, err := os.Stat(filepath.Join(h.out, "tools/call_1/stdout.log")); err != nil || fi.Size() != 588895 {
		t.Errorf("log: %v, %v", fi, err)
	}
	if o := h.run(t, map[string]any{"cmd": "seq 1 100000 >&2; echo short",
		"max_output_tokens": 500}); !strings.Contains(o.Rendered, "stdout:\nshort\nstderr:\n1\n2\n") {
		t.Errorf("standard error may not crowd out standard output:\n%.300s", o.Rendered)
	}
}

func TestDiagnostics(t *testing.T) {
	h := newHarness(t)
	tests := []struct {
		cmd                   string
		heredoc, inline, long bool
	}{
		{"cat <<EOF\nx\nEOF", true, false, false},
		{"sh -c 'echo x'", false, true, false},
		{": " + strings.Repeat("x", softThreshold), false, false, true},
	}
	for _, tt := range tests {
		var r completedResult
		expect.NoError(t, json.Unmarshal(h.run(t, map[string]any{"cmd": tt.cmd}).Canonical.Result, &r))
		d := r.Diagnostics
		if d == nil {
			t.Fatalf("%+v: d = nil, want a value", tt)
		}
		expect.Equal(t, fmt.Sprintf("%+v: d.ContainsHeredoc", tt), d.ContainsHeredoc, tt.heredoc)
		expect.Equal(t, fmt.Sprintf("%+v: d.ContainsInlineScript", tt), d.ContainsInlineScript, tt.inline)
		expect.Equal(t, fmt.Sprintf("%+v: d.ExceedsSoftThreshold", tt), d.ExceedsSoftThreshold, tt.long)
	}
}
