package control

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"holon/internal/httpserver"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// outcome is what a command did. seq is the last of its events, 0 for none of its own.
type outcome struct {
	seq    int64
	noOp   bool
	result any
}

// command is one command of the Agent Runtime standard. Those that act are names of operations of the control plane.
type command struct {
	name    string
	takes   []string                                                    // fields, besides those that name it and its agent
	run     func(*Server, *http.Request, wire.Command) (outcome, error) // nil: it is refused
	removed bool                                                        // it acts for an agent that was removed, too
	reads   bool                                                        // it is not remembered
	route   string                                                      // of one that only reads: what answers it
	why     string                                                      // of any other: why it is not carried out
}

// Reasons why commands are not carried out.
const (
	noPause     = "an agent says itself what its work waits for; a command that runs is not paused"
	noGraph     = "tasks have no graph yet"
	noSubagents = "an agent spawns its children itself; input and stop of the task of one reach it"
	noPolicy    = "policy is decided in the container, before each call"
	noJobs      = "there is no dispatcher of jobs"
	noChannels  = "a reader of GET /runtime/events keeps its own cursor"
)

// commands are the 42 commands of the standard in its order, and those that it forgot.
func commands() []command {
	ofModel := func(name string) string { return "GET /runtime/read/" + name }
	one := []string{"task_id"}
	return []command{
		{name: "submit_turn", run: (*Server).submitTurn, takes: []string{"text", "parts", "priority"}},
		{name: "interrupt_turn", run: (*Server).interruptTurn, takes: []string{"turn_id", "reason"}},
		{name: "resume_thread", run: (*Server).resumeThread},
		{name: "create_task", run: (*Server).createTask, takes: []string{"objective", "cmd"}},
		{name: "update_task", run: (*Server).updateTask, takes: []string{"task_id", "objective"}},
		{name: "start_task", run: (*Server).startTask, takes: one},
		{name: "cancel_task", run: (*Server).cancelTask, takes: one},
		{name: "complete_task", run: (*Server).completeTask, takes: one},
		{name: "append_task_progress", why: "an agent tells of its progress itself"},
		{name: "pause_task", why: noPause},
		{name: "resume_task", why: noPause},
		{name: "retry_task", why: "what has ended is not begun again; create_task makes another one"},
		{name: "fail_task", why: "the operator ends a work item by complete_task and a command by cancel_task"},
		{name: "list_tasks", route: ofModel("task_snapshot")},
		{name: "get_task", route: ofModel("task_snapshot")},
		{name: "link_tasks", why: noGraph},
		{name: "unlink_tasks", why: noGraph},
		{name: "respond_action", run: (*Server).respondAction, takes: []string{"action_id", "text"}},
		{name: "remove_queued_turn", run: (*Server).removeQueuedTurn, takes: []string{"queued_turn_id"}},
		{name: "promote_queued_turn", run: (*Server).promoteQueuedTurn, takes: []string{"queued_turn_id"}},
		{name: "get_session", route: ofModel("session_snapshot")},
		{name: "get_thread_read", route: ofModel("thread_read_model")},
		{name: "get_tool_inventory", route: ofModel("tool_inventory_snapshot")},
		{name: "spawn_subagent", why: noSubagents},
		{name: "send_subagent_input", why: noSubagents},
		{name: "wait_subagents", why: noSubagents},
		{name: "resume_subagent", why: noSubagents},
		{name: "close_subagent", why: noSubagents},
		{name: "export_evidence", run: (*Server).exportEvidence, removed: true, takes: []string{"through"}},
		{name: "export_replay", route: "GET /runtime/export/replay"},
		{name: "evaluate_permission", why: noPolicy},
		{name: "resolve_permission", why: noPolicy},
		{name: "get_execution_environment", route: ofModel("execution_environment_snapshot")},
		{name: "write_process_stdin", why: "input can't be written once for its command_id; " +
			"POST /control/agents/{id}/tasks/{task_id}/input writes it"},
		{name: "terminate_process", why: "cancel_task ends the process of a task, and interrupt_turn those of a turn"},
		{name: "list_subagents", route: ofModel("subagent_job_summary")},
		{name: "list_jobs", route: ofModel("subagent_job_summary")},
		{name: "get_job", route: ofModel("subagent_job_summary")},
		{name: "cancel_job", why: noJobs},
		{name: "reconnect_channel", why: noChannels},
		{name: "ack_events", why: noChannels},
		{name: "export_review", route: "GET /runtime/export/review"},

		{name: "list_sessions", route: "GET /agents/list"},
		{name: "get_capabilities", run: (*Server).getCapabilities, removed: true, reads: true},
		{name: "subscribe_events", route: "GET /runtime/events"},
		{name: "archive_task", why: "tasks stay in the record of their agent"},
		{name: "compact_thread", why: "the runtime compacts when a conversation nears the window of its model"},
		{name: "rollback_thread", why: "a record is never rolled back"},
		{name: "wait_turn", route: "GET /agents/{id}/events/stream"},
		{name: "create_job", why: noJobs},
	}
}

// capability is what get_capabilities answers of a command.
func (cmd command) capability() wire.Capability {
	c := wire.Capability{Command: cmd.name, Status: "supported", Reason: cmd.why, Route: cmd.route}
	switch {
	case cmd.route != "":
		c.Status = string(wire.CodeReadOnly)
	case cmd.why != "":
		c.Status = string(wire.CodeUnsupported)
	}
	return c
}

// refused is the error of a command that is not carried out.
func (cmd command) refused() error {
	if cmd.route != "" {
		return &state.Error{Code: wire.CodeReadOnly, Param: "name", Message: cmd.name + " only reads",
			Hint: "ask " + cmd.route}
	}
	return &state.Error{Code: wire.CodeUnsupported, Param: "name", Message: cmd.name + " is not carried out: " + cmd.why,
		Hint: "get_capabilities says which commands are"}
}

// postCommand is POST /runtime/commands/{name}.
func (s *Server) postCommand(w http.ResponseWriter, r *http.Request) (any, error) {
	all, name := commands(), httpserver.PathValue(r, "name")
	i := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if i < 0 {
		return nil, &state.Error{Code: ledger.CodeNotFound, Param: "name",
			Message: fmt.Sprintf("there is no command %.80q", name), Hint: "get_capabilities lists the commands"}
	}
	if all[i].run == nil {
		return nil, all[i].refused()
	}
	var c wire.Command
	limit := int64(maxPrompt)
	if slices.Contains(all[i].takes, "parts") {
		limit = maxParts
	}
	if err := s.decode(w, r, limit, &c, false); err != nil {
		return nil, err
	}
	if !usableKey(c.CommandID) {
		return nil, &state.Error{Code: wire.CodeInvalid, Param: "command_id", Message: "the command has no usable id",
			Hint: fmt.Sprintf("send 1 to %d printable ASCII characters", maxKey)}
	}
	if err := s.address(&c); err != nil {
		return nil, err
	}
	s.mayTake(w, containerTime)
	answer, err := s.carryOut(r, all[i], c)
	if err != nil {
		return nil, refusal(err)
	}
	return answer, nil
}

// address finds the agent of a command, which its session or thread names as well.
func (s *Server) address(c *wire.Command) error {
	for _, by := range []struct{ param, id, prefix string }{
		{"session_id", c.SessionID, state.SessionID("")}, {"thread_id", c.ThreadID, record.ThreadID("")},
	} {
		agent, ok := strings.CutPrefix(by.id, by.prefix)
		if by.id == "" || ok && c.AgentID == agent {
			continue
		}
		if c.AgentID != "" || !ok {
			return &state.Error{Code: wire.CodeInvalid, Param: by.param,
				Message: fmt.Sprintf("%.100q is not of the agent %.64s", by.id, cmp.Or(c.AgentID, "that is meant")),
				Hint:    "name the agent by agent_id alone; list_sessions has the agents"}
		}
		c.AgentID = agent
	}
	c.AgentID = cmp.Or(c.AgentID, s.host.Info().DefaultAgent)
	c.SessionID, c.ThreadID = "", "" // however its agent is named, it is the same command
	return nil
}

// carryOut carries a command out, or answers as it did the first time.
func (s *Server) carryOut(r *http.Request, cmd command, c wire.Command) (wire.CommandAnswer, error) {
	known, err := remembered(cmd.name, c)
	if err != nil {
		return wire.CommandAnswer{}, err
	}
	before, again, err := s.steps.Recall(r.Context(), known)
	if err != nil || again {
		return answered(before), err
	}
	if err := cmd.check(c); err != nil {
		return wire.CommandAnswer{}, err
	}
	if state.IsChild(c.AgentID) {
		return wire.CommandAnswer{}, private(c.AgentID)
	}
	if err := s.addressee(r.Context(), c.AgentID, !cmd.removed); err != nil {
		return wire.CommandAnswer{}, err
	}
	out, err := cmd.run(s, r, c)
	if err != nil {
		return wire.CommandAnswer{}, err
	}
	if known.Through, known.NoOp = out.seq, out.noOp; out.seq == 0 { // what was so before is so through the newest event
		if known.Through, err = s.newest(r.Context(), c.AgentID); err != nil {
			return wire.CommandAnswer{}, err
		}
	}
	if out.result != nil {
		if known.Result, err = json.Marshal(out.result); err != nil {
			return wire.CommandAnswer{}, fmt.Errorf("encode the result of %s: %w", cmd.name, err)
		}
	}
	if !cmd.reads {
		known, err = s.steps.Remember(r.Context(), known)
	}
	return answered(known), err
}

// check refuses fields that the command does not read: they were meant to do something.
func (cmd command) check(c wire.Command) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode a command: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return fmt.Errorf("read a command: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(cmd.takes, name) && !slices.Contains(addressing, name) {
			return &state.Error{Code: wire.CodeUnknownField, Param: name,
				Message: fmt.Sprintf("the command %s has no %s", cmd.name, name),
				Hint:    cmp.Or(strings.Join(cmd.takes, ", "), "nothing but its agent") + " is what it takes"}
		}
	}
	return nil
}

// addressing are the fields that every command has.
var addressing = []string{"command_id", "agent_id", "session_id", "thread_id"}

// addressee refuses what is meant for an agent that is not there, and with live for one that was removed, before
// anything that it names is looked up.
func (s *Server) addressee(ctx context.Context, agentID string, live bool) error {
	return s.store.View(ctx, func(v ledger.View) error {
		a, err := v.Agent(agentID)
		if err == nil && live && a.ArchivedAt != nil {
			err = scheduler.Archived(agentID)
		}
		return err
	})
}

// remembered is a command as the ledger knows it, without its answer.
func remembered(name string, c wire.Command) (ledger.Command, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return ledger.Command{}, fmt.Errorf("encode a command: %w", err)
	}
	sum := sha256.Sum256(text)
	return ledger.Command{AgentID: c.AgentID, ID: c.CommandID, Name: name, Digest: hex.EncodeToString(sum[:])}, nil
}

func answered(c ledger.Command) wire.CommandAnswer {
	return wire.CommandAnswer{CommandID: c.ID, Status: "accepted", AppliedThroughSequence: c.Through, NoOp: c.NoOp,
		Result: c.Result}
}

// newest is the number of the last event of an agent.
func (s *Server) newest(ctx context.Context, agentID string) (seq int64, err error) {
	err = s.store.View(ctx, func(v ledger.View) error {
		page, err := v.Events(agentID, ledger.EventQuery{Limit: 1, Descending: true})
		seq = page.Newest
		return err
	})
	return seq, err
}

// refusals are the refusals of the standard that errors of the steps are.
var refusals = map[state.Code]state.Code{
	scheduler.CodeAgentStopped: wire.CodeStopped, scheduler.CodeAgentArchived: wire.CodeStopped,
	scheduler.CodeAgentBusy:      ledger.CodeConflict,
	scheduler.CodeInvalidMessage: wire.CodeInvalid, scheduler.CodeKeyConflict: ledger.CodeConflict,
	scheduler.CodeQueueFull: wire.CodeBlocked, scheduler.CodeSelfLimit: wire.CodeBlocked,
	scheduler.CodeNotQueued: ledger.CodeConflict, scheduler.CodeNoRun: ledger.CodeConflict,
	scheduler.CodeRunMismatch: ledger.CodeConflict, scheduler.CodeWorkCompleted: ledger.CodeConflict,
	scheduler.CodeInvalidWork: wire.CodeInvalid, scheduler.CodeWorkLimit: wire.CodeBlocked,
	ledger.CodeInvalidTask: wire.CodeInvalid, scheduler.CodeTaskLimit: wire.CodeBlocked,
	wire.CodeUnusable: wire.CodeBlocked, wire.CodeContainer: wire.CodeUnavailable, wire.CodeBusy: wire.CodeUnavailable,
	wire.CodeNotReady: wire.CodeUnavailable, wire.CodeDraining: wire.CodeUnavailable,
	ledger.CodeLocked: wire.CodeUnavailable, ledger.CodeLedgerEnded: wire.CodeUnavailable,
	ledger.CodeElsewhere: wire.CodeUnavailable, ledger.CodeLeaseLost: wire.CodeUnavailable,
	ledger.CodeLedgerAway: wire.CodeUnavailable, ledger.CodeLedgerFull: wire.CodeUnavailable,
	wire.CodeMissingField: wire.CodeInvalid,
	wire.CodeInvalidValue: wire.CodeInvalid, wire.CodeTooLarge: wire.CodeInvalid, ledger.CodeTooLarge: wire.CodeInvalid,
}

// params are the fields of commands that have other names in the steps.
var params = map[string]string{"idempotency_key": "command_id", "work_item_id": "task_id", "run_id": "turn_id",
	"agent": "agent_id", "message": "queued_turn_id"}

// refusal makes a refusal of the standard of an error; one that it has no word for keeps its code.
func refusal(err error) error {
	e, ok := errors.AsType[*state.Error](err)
	if !ok || refusals[e.Code] == "" && params[e.Param] == "" {
		return err
	}
	refused := *e
	refused.Param = cmp.Or(params[e.Param], e.Param)
	if e.Code == scheduler.CodeKeyConflict && e.Param == "idempotency_key" { // carried out, and not remembered
		refused.Message = "the command_id was used for a command with other input: " + e.Message
		refused.Hint = "use a new command_id for each command; send the same input again to get its answer"
	}
	if code := refusals[e.Code]; code != "" {
		refused.Code, refused.Hint = code, cmp.Or(e.Hint, "GET /openapi.json describes commands")
	}
	return &refused
}
