package tasks

import "testing"

// A file has one name in all facts, wherever the container has its directories.
func TestOutputRef(t *testing.T) {
	for _, c := range []struct{ path, startedBy, of, want string }{
		{"", "turn_1", "turn_1", ""},
		{"/holon/output/turns/turn_1/tools/call_1/stdout.log", "turn_1", "turn_1", "tools/call_1/stdout.log"},
		{"/holon/output/turns/turn_1/tools/call_1/stdout.log", "turn_1", "turn_2",
			"turns/turn_1/tools/call_1/stdout.log"},
		{"/holon/output/turns/turn_1/tools/call_1/stdout.log", "turn_1", "", "turns/turn_1/tools/call_1/stdout.log"},
		{"/holon/output/elsewhere/tools/call_1/stdout.log", "turn_1", "turn_2",
			"turns/turn_1/tools/call_1/stdout.log"},
		{"/holon/output/tasks/task_1/stdout.log", "", "turn_2", "tasks/task_1/stdout.log"},
	} {
		command := Command{OutputPath: c.path}
		if got := command.OutputRef(c.startedBy, c.of); got != c.want {
			t.Errorf("the file %q of a task of %q is %q in %q, want %q", c.path, c.startedBy, got, c.of, c.want)
		}
	}
}
