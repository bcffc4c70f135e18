package command

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/process"
	"holon/agentd/tools"
	wire "holon/responses/tasks"
	"holon/test/expect"
)

var update = flag.Bool("update", false, "write the golden files")

// promote makes a task of a command.
func (h *harness) promote(t testing.TB, args map[string]any) promotedResult {
	t.Helper()
	args["yield_time_ms"] = 1
	p := result[promotedResult](t, h.run(t, args))
	if h := p.TaskHandle; p.Disposition != promotedToTask || h.Kind != wire.KindCommand || h.Status != wire.Running {
		t.Fatalf("got %+v, want a %s task that is %s", p, wire.KindCommand, wire.Running)
	}
	return p
}

func (h *harness) output(t testing.TB, id string, block bool) wire.OutputResult {
	t.Helper()
	return result[wire.OutputResult](t,
		h.call(t, t.Context(), OutputName, map[string]any{"task_id": id, "block": block}))
}

// until waits until a task has printed what is asked for.
func (h *harness) until(t testing.TB, id, want string) {
	t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(h.output(t, id, false).Task.OutputPreview,
		want); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %q", want)
		}
	}
}

func TestPromotion(t *testing.T) {
	h := newHarness(t)
	p := h.promote(t, map[string]any{"cmd": "echo up; read x; echo got $x; exit 7", "accepts_input": true})
	id := p.TaskHandle.TaskID
	h.until(t, id, "up\n")
	in := result[wire.InputResult](t, h.call(t, t.Context(), inputName,
		map[string]any{"task_id": id, "input": "word\n"}))
	if !in.AcceptedInput || in.InputTarget != wire.TargetStdin {
		t.Errorf("%+v", in)
	}
	o := h.call(t, t.Context(), OutputName, map[string]any{"task_id": id})
	want := "Task " + id + ": failed\ncommand exited with status 7\nOutput:\nup\ngot word"
	if diff := cmp.Diff(want, o.Rendered); diff != "" {
		t.Error(diff)
	}
	// The log goes on in the directory of the call that started it.
	out := result[wire.OutputResult](t, o)
	data, err := os.ReadFile(out.Task.Artifacts[*out.Task.OutputArtifact].Path)
	if err != nil || string(data) != "up\ngot word\n" ||
		!strings.HasPrefix(out.Task.Artifacts[0].Path, filepath.Join(h.out, "tools", "call_1")) {
		t.Errorf("log %q, %v, %+v", data, err, out.Task.Artifacts)
	}
	if ended := h.tasks.Ended("sess_1", ""); len(ended) != 1 || !ended[0].Seen {
		t.Errorf("the model has seen the end and would be told again: %+v", ended)
	}
}

func TestDuplicates(t *testing.T) {
	h := newHarness(t)
	args := map[string]any{"cmd": "sleep 600"}
	first := h.promote(t, args)
	o := h.run(t, args)
	a := result[alreadyResult](t, o)
	expect.Equal(t, "a.Disposition", a.Disposition, duplicateRun)
	expect.Equal(t, "a.TaskHandle.TaskID", a.TaskHandle.TaskID, first.TaskHandle.TaskID)
	expect.Equal(t, "a.Command.Cmd", a.Command.Cmd, "sleep 600")
	if !strings.HasPrefix(o.Rendered, "Command is already running as a task\nTask: "+first.TaskHandle.TaskID) {
		t.Error(o.Rendered)
	}
	args["duplicate_policy"] = "start_new"
	if second := h.promote(t, args); second.TaskHandle.TaskID == first.TaskHandle.TaskID {
		t.Error("start_new started nothing")
	}
	delete(args, "duplicate_policy")
	args["workdir"] = "sub"
	if other := h.promote(t, args); other.TaskHandle.TaskID == first.TaskHandle.TaskID {
		t.Error("another directory is the same command")
	}
	h.env.SessionID = "sess_2"
	delete(args, "workdir")
	if other := h.promote(t, args); other.TaskHandle.TaskID == first.TaskHandle.TaskID {
		t.Error("another session's task is returned")
	}
	list := result[wire.List](t, h.call(t, t.Context(), listName, map[string]any{}))
	if len(list.Tasks) != 1 {
		t.Errorf("another session's tasks are listed: %+v", list)
	}
}

// A task outlives its turn; a command that is not one does not.
func TestTaskOutlivesItsTurn(t *testing.T) {
	h := newHarness(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := h.runCtx(t, ctx, map[string]any{"cmd": "sleep 600", "yield_time_ms": 1})
	id := result[promotedResult](t, o).TaskHandle.TaskID
	cancel()
	if s, err := h.tasks.Get("sess_1", id); err != nil || s.Status != wire.Running {
		t.Errorf("%+v, %v", s, err)
	}
	o = h.call(t, ctx, OutputName, map[string]any{"task_id": id})
	if e := o.Canonical.Error; e == nil || e.Kind != tools.KindCanceled {
		t.Errorf("%+v", o.Canonical)
	}
	h.env.TurnID = "turn_2"
	stop := result[wire.StopResult](t, h.call(t, t.Context(), StopName, map[string]any{"task_id": id}))
	expect.Equal(t, "stop.StopRequested", stop.StopRequested, true)
	expect.Equal(t, "stop.Task.Status", stop.Task.Status, wire.Cancelled)
	expect.Equal(t, "stop.Task.TurnID", stop.Task.TurnID, "turn_1")
}

func TestTerminalTask(t *testing.T) {
	h := newHarness(t)
	p := h.promote(t, map[string]any{"cmd": "trap 'echo interrupted; exit 0' INT; echo ready; while :; do sleep " +
		"0.01; done", "tty": true, "accepts_input": true})
	h.until(t, p.TaskHandle.TaskID, "ready\n")
	h.call(t, t.Context(), inputName, map[string]any{"task_id": p.TaskHandle.TaskID, "input": "\x03"})
	if out := h.output(t, p.TaskHandle.TaskID, true); out.Task.Status != wire.Completed ||
		!strings.Contains(out.Task.OutputPreview, "interrupted\n") {
		t.Errorf("%+v", out)
	}
	// One that ends in time is an ordinary command with one stream.
	c := result[completedResult](t, h.run(t,
		map[string]any{"cmd": "tty >/dev/null && echo yes; echo no >&2", "tty": true}))
	if c.StdoutPreview == nil {
		t.Fatal("c.StdoutPreview = nil, want a value")
	}
	expect.Equal(t, "*c.StdoutPreview", *c.StdoutPreview, "yes\nno\n")
	expect.Equal(t, "c.StderrPreview", c.StderrPreview, nil)
}

func TestTaskErrors(t *testing.T) {
	h := newHarness(t)
	id := h.promote(t, map[string]any{"cmd": "sleep 600"}).TaskHandle.TaskID
	tests := []struct {
		tool        string
		args        map[string]any
		kind, field string
	}{
		{statusName, map[string]any{}, tools.KindInvalidInput, "task_id"},
		{statusName, map[string]any{"task_id": ""}, tools.KindInvalidInput, "task_id"},
		{statusName, map[string]any{"task_id": 7}, tools.KindInvalidInput, "task_id"},
		{statusName, map[string]any{"task_id": "task_none"}, kindTaskNotFound, "task_id"},
		{statusName, map[string]any{"task_id": "../../etc/passwd"}, kindTaskNotFound, "task_id"},
		{OutputName, map[string]any{"task_id": "task_none"}, kindTaskNotFound, "task_id"},
		{OutputName, map[string]any{"task_id": id, "timeout_ms": 0}, tools.KindInvalidInput, "timeout_ms"},
		{OutputName, map[string]any{"task_id": id, "block": "no"}, tools.KindInvalidInput, "block"},
		{inputName, map[string]any{"task_id": "task_none", "input": "x"}, kindTaskNotFound, "task_id"},
		{inputName, map[string]any{"task_id": id}, tools.KindInvalidInput, "input"},
		{inputName, map[string]any{"task_id": id, "input": strings.Repeat("x", 70_000)}, tools.KindInvalidInput,
			"input"},
		{inputName, map[string]any{"task_id": id, "text": "x"}, tools.KindInvalidInput, "text"},
		{StopName, map[string]any{"task_id": "task_none"}, kindTaskNotFound, "task_id"},
		{StopName, map[string]any{"task_id": id, "force": 1}, tools.KindInvalidInput, "force"},
		{listName, map[string]any{"all": true}, tools.KindInvalidInput, "all"},
	}
	for _, tt := range tests {
		refused(t, fmt.Sprint(tt), h.call(t, t.Context(), tt.tool, tt.args).Canonical.Error, tt.kind, tt.field)
	}
	o := h.call(t, t.Context(), inputName, map[string]any{"task_id": id, "input": "x"})
	if in := result[wire.InputResult](t, o); in.AcceptedInput || !strings.Contains(o.Rendered, "accepts_input") {
		t.Errorf("%+v\n%s", in, o.Rendered)
	}
}

// batch runs a batch and returns its result.
func (h *harness) batch(t *testing.T, args map[string]any) batchResult {
	t.Helper()
	return result[batchResult](t, h.call(t, t.Context(), batchName, args))
}

// counts are how many items of a batch have each status, in the order of the constants.
func (b batchResult) counts() [4]int {
	return [4]int{b.CompletedCount, b.FailedCount, b.RejectedCount, b.SkippedCount}
}

func TestBatch(t *testing.T) {
	h := newHarness(t)
	items := []map[string]any{
		{"cmd": "echo one"}, {"cmd": "echo bad >&2; exit 2"}, {"cmd": "x", "workdir": "../.."},
		{"cmd": "echo begun; sleep 600", "yield_time_ms": 500}, {"cmd": "pwd", "workdir": "sub"},
	}
	b := h.batch(t, map[string]any{"items": items})
	if got, want := b.counts(), [4]int{2, 2, 1, 0}; b.ItemCount != 5 || got != want {
		t.Errorf("%d items, counted %v, want 5, %v", b.ItemCount, got, want)
	}
	for i, kind := range []string{"", kindNonzeroExit, tools.KindRootViolation, kindTimeout, ""} {
		item := b.Items[i]
		if item.Index != i || item.ErrorKind != kind {
			t.Errorf("item %d has the index %d and the error %q, want %q", i, item.Index, item.ErrorKind, kind)
		}
		if (item.ErrorMessage == "") != (kind == "") {
			t.Errorf("item %d has the message %q and the error %q", i, item.ErrorMessage, kind)
		}
		if (item.DurationMS == nil) != (item.Status == itemRejected) {
			t.Errorf("item %d took %v and is %s", i, item.DurationMS, item.Status)
		}
	}
	if r := b.Items[0].Result; r == nil || *r.StdoutPreview != "one\n" {
		t.Errorf("the first item gave %+v, want one", r)
	} else if len(r.Artifacts) != 1 || r.Artifacts[0].Path != "tools/call_1/0-stdout.log" {
		t.Errorf("the first item has the files %+v, want its standard output", r.Artifacts)
	}
	if l := h.tasks.List("", 10); len(l.Tasks) != 0 {
		t.Errorf("a batch made tasks: %+v", l)
	}
	b = h.batch(t, map[string]any{"items": items[:3], "stop_on_error": true})
	if got, want := b.counts(), [4]int{1, 1, 0, 1}; got != want || b.Items[2].Status != itemSkipped {
		t.Errorf("stopped with %v, the last %s, want %v, %s", got, b.Items[2].Status, want, itemSkipped)
	}
}

func TestBatchArguments(t *testing.T) {
	h := newHarness(t)
	for _, tt := range []struct {
		args  map[string]any
		field string
	}{
		{map[string]any{"items": []any{}}, "items"},
		{map[string]any{"items": make([]map[string]any, 13)}, "items"},
		{map[string]any{"items": "echo"}, "items"},
		{map[string]any{"item": []any{}}, "item"},
	} {
		refused(t, fmt.Sprint(tt), h.call(t, t.Context(), batchName, tt.args).Canonical.Error, tools.KindInvalidInput,
			tt.field)
	}
}

// An item that is wrong is rejected alone, and the error names what is wrong about it.
func TestBatchRejectsItems(t *testing.T) {
	h := newHarness(t)
	items := []any{map[string]any{"cmd": "echo one", "workdir": nil}, map[string]any{"cmd": "x", "tty": true},
		map[string]any{"cmd": 1}, nil, "echo", map[string]any{"workdir": "sub"}, map[string]any{"cmd": ""},
		map[string]any{"cmd": "x", "yield_time_ms": 1e9}, map[string]any{"cmd": "echo two"}}
	b := h.batch(t, map[string]any{"items": items})
	expect.Equal(t, "counted", b.counts(), [4]int{2, 0, 7, 0})
	for i, field := range []any{nil, "tty", "cmd", nil, nil, "cmd", "cmd", "yield_time_ms", nil} {
		if it := b.Items[i]; it.ErrorDetails["field"] != field || (it.Status == itemRejected) != (i > 0 && i < 8) {
			t.Errorf("item %d is %s for the field %v (%s), want %v", i, it.Status, it.ErrorDetails["field"],
				it.ErrorMessage, field)
		}
	}
	expect.Equal(t, "a rejected item is named", b.Items[7].Cmd, "x")
	b = h.batch(t, map[string]any{"items": items[:3], "stop_on_error": true})
	expect.Equal(t, "stopped", b.counts(), [4]int{1, 0, 1, 1})
}

// The outputs of twelve floods share one budget.
func TestBatchSharesTheBudget(t *testing.T) {
	h := newHarness(t)
	flood := slices.Repeat([]map[string]any{{"cmd": "seq 1 50000"}}, maxBatch)
	o := h.call(t, t.Context(), batchName, map[string]any{"items": flood})
	if len(o.Rendered) > 48<<10 {
		t.Errorf("the receipt has %d bytes, want at most %d", len(o.Rendered), 48<<10)
	}
	if n := strings.Count(o.Rendered, "Full stdout: "); n != maxBatch {
		t.Errorf("%d outputs are named, want %d", n, maxBatch)
	}
}

func TestBatchCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := newHarness(t).call(t, ctx, batchName, map[string]any{"items": []map[string]any{{"cmd": "echo one"}}})
	if e := o.Canonical.Error; e == nil || e.Kind != tools.KindCanceled {
		t.Errorf("got %+v, want %s", e, tools.KindCanceled)
	}
}

// Commands that behave badly have one bounded outcome each.
func TestHostileCommands(t *testing.T) {
	h := newHarness(t)
	h.env.Disk = process.NewBudget(1<<20, nil)
	tests := []struct{ cmd, part string }{
		{"printf '\\000\\000\\000'", "^@^@^@"},
		{"head -c 50000000 /dev/zero", "[^@ ×"},
		{"printf '\\377\\376'; printf '\\303'", "\ufffd"},
		{"yes | head -c 3000000; exit 9", "Process exited with code 9"},
	}
	for _, tt := range tests {
		o := h.run(t, map[string]any{"cmd": tt.cmd})
		if o.Canonical.Error != nil || !strings.Contains(o.Rendered, tt.part) || len(o.Rendered) > 40<<10 {
			t.Errorf("%s: %v, a receipt of %d bytes, %.500q, want at most %d with %q", tt.cmd, o.Canonical.Error,
				len(o.Rendered), o.Rendered, 40<<10, tt.part)
		}
	}
	// A megabyte was allowed; everything was counted all the same.
	var size int64
	err := filepath.WalkDir(h.out, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		size += info.Size()
		return err
	})
	if err != nil || size > 1<<20 {
		t.Errorf("%d bytes of logs, %v", size, err)
	}
	if o := h.run(t, map[string]any{"cmd": "seq 1 100000"}); !strings.Contains(o.Rendered, "588895 bytes in all") ||
		!strings.Contains(o.Rendered, "the log file holds the first 0 of") {
		t.Errorf("with nothing left to write:\n%.300s", o.Rendered)
	}
}

// varying is what differs from run to run in an outcome.
func varying() *regexp.Regexp {
	return regexp.MustCompile(`task_[0-9a-z]{26}|call_[0-9]+|` + regexp.QuoteMeta(os.TempDir()) +
		`/[A-Za-z0-9_./-]*|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|"(duration_ms)": [0-9]+|"(cmd_digest)": "[0-9a-f]{64}"`)
}

// Both surfaces of every family and kind of outcome, byte for byte; and the
// second can be made again from the first.
func TestGolden(t *testing.T) {
	h := newHarness(t)
	id := h.promote(t, map[string]any{"cmd": "echo out; echo err >&2; read x; read y; exit 3",
		"accepts_input": true}).TaskHandle.TaskID
	h.until(t, id, "out\n")
	h.until(t, id, "err\n")
	h.promote(t, map[string]any{"cmd": "exec sleep 600"})
	cases := []struct {
		file, tool string
		args       map[string]any
	}{
		{"exec_completed", execName, map[string]any{"cmd": "echo out; echo err >&2; exit 2"}},
		{"exec_truncated", execName, map[string]any{"cmd": "seq 1 5000", "max_output_tokens": 1}},
		{"exec_already_running", execName, map[string]any{"cmd": "exec sleep 600"}},
		{"exec_error_root", execName, map[string]any{"cmd": "ls", "workdir": "../other-repo"}},
		{"exec_error_input", execName, map[string]any{}},
		{"exec_error_spawn", execName, map[string]any{"cmd": "ls", "shell": "/nowhere/sh"}},
		{"batch", batchName, map[string]any{"stop_on_error": true,
			"items": []any{map[string]any{"cmd": "echo one"}, map[string]any{"cmd": "exit 4"},
				map[string]any{"cmd": "echo never"}}}},
		{"batch_rejected", batchName, map[string]any{"items": []any{map[string]any{"cmd": "ls", "workdir": "none"}}}},
		{"task_status", statusName, map[string]any{"task_id": id}},
		{"task_output_not_ready", OutputName, map[string]any{"task_id": id, "block": false}},
		{"task_output_timeout", OutputName, map[string]any{"task_id": id, "timeout_ms": 1}},
		{"task_input", inputName, map[string]any{"task_id": id, "input": "x\n"}},
		{"task_output_success", OutputName, map[string]any{"task_id": id}},
		{"task_input_refused", inputName, map[string]any{"task_id": id, "input": "x\n"}},
		{"task_stop_ended", StopName, map[string]any{"task_id": id}},
		{"task_status_ended", statusName, map[string]any{"task_id": id}},
		{"task_list", listName, map[string]any{}},
		{"task_error_not_found", statusName, map[string]any{"task_id": "task_none"}},
	}
	for _, tt := range cases {
		if tt.file == "task_output_success" { // a task that one line ends may be over before its input is answered
			h.call(t, t.Context(), inputName, map[string]any{"task_id": id, "input": "y\n"})
		}
		o := h.call(t, t.Context(), tt.tool, tt.args)
		canonical, err := o.Canonical.Encode()
		expect.NoError(t, err)
		var back tools.Result
		expect.NoError(t, json.Unmarshal(canonical, &back))
		if again := h.reg.Render(back, tools.RenderPolicy{OutputDir: h.out}); again != o.Rendered {
			t.Errorf("%s: rendered again\n%s\nfirst\n%s", tt.file, again, o.Rendered)
		}
		if again, err := back.Encode(); err != nil || string(again) != string(canonical) {
			t.Errorf("%s: encoded again\n%s\nfirst\n%s", tt.file, again, canonical)
		}
		indented, err := json.MarshalIndent(json.RawMessage(canonical), "", "  ")
		expect.NoError(t, err)
		got := varying().ReplaceAllStringFunc(string(indented)+"\n---\n"+o.Rendered+"\n", func(s string) string {
			switch {
			case strings.HasPrefix(s, "task_"):
				return "task_ID"
			case strings.HasPrefix(s, "call_"):
				return "call_ID"
			case filepath.IsAbs(s):
				return "/DIR/" + filepath.Base(s)
			case strings.HasPrefix(s, `"duration_ms`):
				return `"duration_ms": 0`
			case strings.HasPrefix(s, `"cmd_digest`):
				return `"cmd_digest": "DIGEST"`
			}
			return "TIME"
		})
		got = regexp.MustCompile(`/DIR/00[0-9]`).ReplaceAllString(got, "/DIR/TREE")
		path := filepath.Join("testdata", tt.file+".golden")
		if *update {
			expect.NoError(t, os.WriteFile(path, []byte(got), 0o600))
		}
		want, err := os.ReadFile(path)
		expect.NoError(t, err)
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s:\n%s", tt.file, diff)
		}
	}
}
