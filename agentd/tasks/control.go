package tasks

import (
	"context"
	"fmt"
	"sync"
	"time"

	"holon/agentd/process"
	"holon/responses"
	wire "holon/responses/tasks"
)

// maxInput bounds one write to a task, in bytes.
const maxInput = 64 << 10

const (
	stopGrace = 5 * time.Second  // between asking a command to end and insisting
	stopWait  = 10 * time.Second // for the end of a command that was killed
	inputWait = 5 * time.Second  // for a command to take its input
)

// Input writes to a task, and resizes its terminal. A task that cannot take the
// input is not an error: the receipt says so. The error is a not_found or invalid_request
// *responses.Error, or ctx's cause.
func (m *Manager) Input(ctx context.Context, session, id string, in wire.Input) (wire.InputResult, error) {
	if len(in.Input) > maxInput {
		e := responses.Invalid("input", responses.CodeInvalidValue,
			fmt.Sprintf("the input has %d bytes and may have %d", len(in.Input), maxInput))
		e.Hint = "send it in parts, or write it to a file that the command reads"
		return wire.InputResult{}, e
	}
	resize := in.Rows > 0 || in.Cols > 0
	if in.Input == "" && !in.Close && !resize {
		e := responses.Invalid("input", responses.CodeMissingParameter, "there is nothing to write")
		e.Hint = "give input, or close_input to end the command's input"
		return wire.InputResult{}, e
	}
	t, err := m.find(session, id)
	if err != nil {
		return wire.InputResult{}, err
	}
	m.mu.Lock()
	proc, why, tty := t.proc, t.refusesInput(), t.rec.Command.TTY
	res := wire.InputResult{Task: t.snapshot()}
	m.mu.Unlock()
	res.InputTarget = res.Task.Command.InputTarget
	if why != "" {
		res.SummaryText = why
		return res, nil
	}
	if resize && tty {
		if err := proc.Resize(in.Rows, in.Cols); err != nil {
			res.SummaryText = "the terminal was not resized: " + err.Error()
			return res, nil
		}
	}
	res.AcceptedInput, res.BytesWritten, res.SummaryText = m.write(ctx, t, proc, in)
	if err := ctx.Err(); err != nil {
		return wire.InputResult{}, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	res.Task = t.snapshot()
	return res, nil
}

// refusesInput says why t takes no input, "" if it does. The caller holds mu.
func (t *task) refusesInput() string {
	switch {
	case t.proc == nil:
		return "the task has ended; it takes no input"
	case !t.rec.Command.AcceptsInput:
		return "the command was not started with accepts_input; start it again with accepts_input to write to it"
	case t.noInput:
		return "the input of the command was closed before"
	}
	return ""
}

func (m *Manager) write(ctx context.Context, t *task, proc *process.Process, in wire.Input) (ok bool, n int,
	summary string) {
	if in.Input != "" {
		bounded, cancel := context.WithTimeout(ctx, inputWait)
		defer cancel()
		var err error
		if n, err = proc.Write(bounded, []byte(in.Input)); err != nil {
			return false, n, fmt.Sprintf("the command took %d of %d bytes: %v", n, len(in.Input), err)
		}
	}
	m.mu.Lock()
	target := t.target()
	m.mu.Unlock()
	summary = fmt.Sprintf("%d bytes written to %s", n, target)
	if in.Close {
		if err := proc.CloseInput(); err != nil {
			return false, n, summary + "; its end could not be marked: " + err.Error()
		}
		summary += "; end of input"
		if target == wire.TargetStdin { // a terminal lives on after ^D
			m.mu.Lock()
			t.noInput = true
			m.mu.Unlock()
		}
	}
	return true, n, summary
}

// Stop ends a task: it is asked to end, and killed with all that it started if
// it does not, or at once with force. Stop returns when the task has ended, and
// at the latest when a killed one should have. Stopping what has ended changes
// nothing. The error is a not_found *responses.Error.
func (m *Manager) Stop(ctx context.Context, session, id string, force bool) (wire.StopResult, error) {
	t, err := m.find(session, id)
	if err != nil {
		return wire.StopResult{}, err
	}
	m.mu.Lock()
	proc := t.proc
	m.mu.Unlock()
	var res wire.StopResult
	if proc != nil {
		res.StopRequested = true
		m.update(t, func(t *task) {
			if t.proc != nil {
				t.rec.Status, t.rec.Summary = wire.Cancelling, "command is being stopped"
			}
		})
		res.ForceStopRequested = m.endProcess(ctx, t, proc, force)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	res.Task = t.snapshot()
	switch {
	case !res.StopRequested:
		res.SummaryText = "the task had ended before: " + res.Task.Summary
	case res.Task.Status.Terminal():
		res.SummaryText = res.Task.Summary
	default:
		res.SummaryText = "the task was asked to end and has not ended yet"
	}
	return res, nil
}

// EndTurn stops the tasks that a turn started, and returns when they have ended.
func (m *Manager) EndTurn(ctx context.Context, turnID string) {
	m.mu.Lock()
	var ids []string
	for id, t := range m.tasks {
		if t.proc != nil && t.rec.TurnID == turnID {
			ids = append(ids, id)
		}
	}
	m.mu.Unlock()
	var stopping sync.WaitGroup
	for _, id := range ids {
		stopping.Go(func() { _, _ = m.Stop(ctx, "", id, false) }) // one that was removed has ended
	}
	stopping.Wait()
}

// endProcess ends proc and waits for the end of t. It reports whether asking was not
// enough.
func (m *Manager) endProcess(ctx context.Context, t *task, proc *process.Process, force bool) (forced bool) {
	if !force {
		proc.Stop(m.stopGrace)
		grace := time.NewTimer(m.stopGrace)
		defer grace.Stop()
		select {
		case <-t.ended:
			return false
		case <-ctx.Done():
			return false
		case <-grace.C:
		}
	}
	proc.Kill()
	select {
	case <-t.ended:
	case <-ctx.Done():
	case <-time.After(stopWait):
	}
	return true
}
