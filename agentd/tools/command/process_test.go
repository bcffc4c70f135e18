package command

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/responses/turns"
)

// processes notes what a call tells of its processes, with the ids as numbers.
type processes struct {
	ids   []string
	told  []string
	began func() // when one begins; nil: nothing
}

func (p *processes) number(id string) int {
	for i, known := range p.ids {
		if known == id {
			return i + 1
		}
	}
	p.ids = append(p.ids, id)
	return len(p.ids)
}

func (p *processes) Started(id string, of turns.Process) {
	p.told = append(p.told, fmt.Sprintf("%d starts %s tty=%t input=%t", p.number(id), of.Command, of.TTY, of.AcceptsInput))
	if p.began != nil {
		p.began()
	}
}

func (p *processes) Written(id string, of turns.Written) {
	p.told = append(p.told, fmt.Sprintf("%d reads %d bytes of %s", p.number(id), of.Bytes, of.Target))
}

func (p *processes) Ended(id string, of turns.ProcessEnd) {
	p.told = append(p.told, strings.TrimSpace(fmt.Sprintf("%d ends with %d %s%s %s", p.number(id), *of.ExitCode,
		of.FailureCategory, of.By, strings.Join(of.OutputRefs, " "))))
}

func TestProcessesAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		cancel  bool // the turn, when the command has begun
		tool    string
		args    map[string]any
		options []option
		want    []string
	}{
		"a command": {tool: execName, args: map[string]any{"cmd": "echo x; exit 3"},
			want: []string{"1 starts echo x; exit 3 tty=false input=false", "1 ends with 3  tools/call_1/stdout.log"}},
		"a batch": {tool: batchName, args: map[string]any{"items": []map[string]any{{"cmd": "true"}, {"cmd": "kill -9 $$"}}},
			want: []string{"1 starts true tty=false input=false", "1 ends with 0", "2 starts kill -9 $$ tty=false input=false",
				"2 ends with 137"}},
		"its time is over": {tool: execName, args: map[string]any{"cmd": "sleep 600", "yield_time_ms": 1},
			options: []option{withoutTasks},
			want:    []string{"1 starts sleep 600 tty=false input=false", "1 ends with 143 timeout"}},
		"its turn is over": {cancel: true, tool: execName, args: map[string]any{"cmd": "sleep 600"},
			want: []string{"1 starts sleep 600 tty=false input=false", "1 ends with 143 parent_cancel"}},
		"a task": {tool: execName, args: map[string]any{"cmd": "cat", "yield_time_ms": 1, "accepts_input": true},
			want: []string{"1 starts cat tty=false input=true"}},
		"no such shell": {tool: execName, args: map[string]any{"cmd": "true", "shell": "ksh"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, told := newHarness(t, c.options...), &processes{}
			h.env.Processes = told
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.cancel {
				told.began = cancel
			}
			h.call(t, ctx, c.tool, c.args)
			if diff := cmp.Diff(c.want, told.told); diff != "" {
				t.Errorf("(-want +told)\n%s", diff)
			}
		})
	}
}

// What is written to a task is written to the process that was told of when the command began.
func TestInputIsTold(t *testing.T) {
	h, told := newHarness(t), &processes{}
	h.env.Processes = told
	id := h.promote(t, map[string]any{"cmd": "cat", "accepts_input": true}).TaskHandle.TaskID
	h.call(t, t.Context(), inputName, map[string]any{"task_id": id, "input": "hello\n"})
	want := []string{"1 starts cat tty=false input=true", "1 reads 6 bytes of stdin"}
	if diff := cmp.Diff(want, told.told); diff != "" || told.ids[0] != turns.ProcessOf(id) {
		t.Errorf("process %s of %s (-want +told)\n%s", told.ids[0], id, diff)
	}
}
