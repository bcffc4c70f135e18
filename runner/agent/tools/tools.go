// Package tools holds the tools with which an agent's model schedules itself: Sleep,
// Enqueue, AgentGet, ExternalTriggerGet, those for its work items, for what it remembers
// and for its children.
//
// A set of tools belongs to one agent, whose container holds the socket that serves
// them; no call names an agent. The invariant: a call is one step of the scheduler,
// taken once even if it is sent again. No tool makes the runtime's own ticks: a model
// that could make them would keep itself awake (runtime specification,
// "SystemTick").
package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"holon/internal/redact"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/hosttools"
	"holon/state"
	"holon/state/ledger"
)

// revealer reveals the token of an agent's external trigger: *agent.Runtime.
type revealer interface {
	RevealTrigger(ctx context.Context, agentID string) (ledger.Trigger, string, error)
}

// Options name the agent of the tools and what they act on. All are required.
type Options struct {
	AgentID   string
	Scheduler *scheduler.Scheduler
	Plans     planWriter
	Ledger    ledger.Reader
	Facts     view.Facts                            // of the runtime, for AgentGet
	Reminder  func(current *view.WorkRecord) string // what a turn's reminder says of the current item, nil for none
	Triggers  revealer
	Children  children // nil: the agent makes no other ones

	Workspaces workspaces  // nil: the agent works in its home alone
	Memory     memories    // nil: it can't be searched
	Secrets    *redact.Set // taken out of what a call says, so that no record has them; nil for none
	// Info waits until the runtime listens, and says where.
	Info func(ctx context.Context) (view.RuntimeInfo, error)
}

// Names of the tools.
const (
	NameSleep    = "Sleep"
	NameEnqueue  = "Enqueue"
	nameAgentGet = "AgentGet"
	nameTrigger  = "ExternalTriggerGet"
)

// New returns the tools of an agent.
func New(o Options) []hosttools.Tool {
	o.Facts.Children = true
	e := &enqueue{Options: o}
	list := append([]hosttools.Tool{
		tool(o, hosttools.Tool{Name: NameSleep, Description: sleepDescription}, o.sleep),
		tool(o, hosttools.Tool{Name: NameEnqueue, Description: enqueueDescription}, e.call),
		tool(o, hosttools.Tool{Name: nameAgentGet, Description: getDescription}, o.get),
	}, slices.Concat(o.work(), o.workspace(), o.memory())...)
	if !state.IsChild(o.AgentID) { // whose parent alone reaches it
		list = append(list, tool(o, hosttools.Tool{Name: nameTrigger, Description: triggerDescription}, o.trigger))
	}
	return append(list, o.childTools()...)
}

// tool adds to a tool, whose arguments are a T, how it is called. The steps of a call are caused by it. No call sees
// what is secret: the URL of the trigger, which its agent is shown, is in no message, wait or work item that the agent
// makes of it. Arguments that are required are texts that are not empty.
func tool[T any](o Options, t hosttools.Tool, call func(context.Context, hosttools.Call, T) (hosttools.Result, error),
	required ...string) hosttools.Tool {
	t.Schema = hosttools.SchemaOf[T](enumerated)
	t.Call = func(ctx context.Context, c hosttools.Call) (hosttools.Result, error) {
		ctx = o.Scheduler.Calling(ctx, o.AgentID, c.ID)
		c.Arguments, c.Round.Text = o.Secrets.JSON(c.Arguments), o.Secrets.Text(c.Round.Text)
		var args T
		if err := arguments(c, &args, required...); err != nil {
			return hosttools.Result{}, err
		}
		result, err := call(ctx, c, args)
		if err != nil {
			return hosttools.Result{}, refusal(err)
		}
		return result, nil
	}
	return t
}

const getDescription = "Shows your own state: whether messages wait, what you wait for, timers, triggers, the " +
	"model, what was used, how the last turn ended. Reading it changes nothing."

// get is AgentGet.
func (o Options) get(ctx context.Context, _ hosttools.Call, _ struct{}) (hosttools.Result, error) {
	var result struct {
		Agent view.AgentSummary `json:"agent"`
	}
	err := o.Ledger.View(ctx, func(v ledger.View) (err error) {
		snapshot := view.New(v, o.Facts)
		result.Agent, err = snapshot.Summary(o.AgentID)
		hidePaths(&result.Agent, snapshot.HomePath(o.AgentID))
		return err
	})
	if err != nil {
		return hosttools.Result{}, err
	}
	return show(ownState(result.Agent), result)
}

// hidePaths takes out where things lie on the host: in its container, where its home is at home, they lie elsewhere,
// and the model has no use for them.
func hidePaths(s *view.AgentSummary, home string) {
	s.Identity.AgentHome, s.Execution.WorkspaceAnchor = home, s.Execution.WorkspaceID
	sources := make([]view.AgentsMD, len(s.LoadedAgentsMD.Sources))
	for i, source := range s.LoadedAgentsMD.Sources {
		source.Path = filepath.Base(source.Path)
		sources[i] = source
	}
	s.LoadedAgentsMD.Sources = sources
	for i := range s.ActiveChildren {
		s.ActiveChildren[i].Identity.AgentHome = "" // in no directory of this container
	}
}

// arguments reads the arguments of a call strictly: what is not known was meant
// to do something. Half of a surrogate pair is U+FFFD. Those that are required are texts that are not empty.
func arguments(c hosttools.Call, into any, required ...string) error {
	err := strict.Unmarshal(c.Arguments, into, strict.RejectUnknownMembers(true), jsontext.AllowInvalidUTF8(true))
	if err == nil {
		return complete(c, required)
	}
	if wrong, ok := errors.AsType[*strict.SemanticError](err); ok && wrong.JSONPointer != "" {
		field := strings.Join(slices.Collect(wrong.JSONPointer.Tokens()), ".")
		if errors.Is(err, strict.ErrUnknownName) {
			return invalid(field, fmt.Sprintf("there is no argument %.80q", field), "leave it out")
		}
		return invalid(field, fmt.Sprintf("%s can't be %s", field, unfit(wrong)), "see the schema of the tool")
	}
	return invalid("", "the arguments are not one JSON object", "correct them and call again")
}

// unfit names a value that an argument can't have.
func unfit(wrong *strict.SemanticError) string {
	switch wrong.JSONKind {
	case '[':
		return "a JSON array"
	case '{':
		return "a JSON object"
	case '0':
		if t := wrong.GoType; t != nil && t.Kind() == reflect.Int {
			return "this number: it has to be a whole one"
		}
	}
	return "a JSON " + wrong.JSONKind.String()
}

// complete refuses a call whose arguments, which could be read, lack one that is required.
func complete(c hosttools.Call, required []string) error {
	var given map[string]any
	if err := json.Unmarshal(c.Arguments, &given); err != nil {
		return err
	}
	for _, name := range required {
		if given[name] == nil || given[name] == "" {
			return invalid(name, fmt.Sprintf("the argument %s is missing", name), "give it and call again")
		}
	}
	return nil
}

func invalid(field, message, hint string) error {
	return &hosttools.ToolError{Kind: hosttools.KindInvalidInput, Field: field, Message: message, Hint: hint}
}

// refusal shows the model what the runtime refuses; other errors are the host's.
func refusal(err error) error {
	e, ok := errors.AsType[*state.Error](err)
	if !ok {
		return err
	}
	switch e.Code {
	case scheduler.CodeSelfLimit, scheduler.CodeInvalidWork, scheduler.CodeWorkLimit, scheduler.CodeWorkCompleted:
		return &hosttools.ToolError{Kind: string(e.Code), Message: e.Message, Hint: e.Hint, Field: e.Param}
	case ledger.CodeNotFound:
		return &hosttools.ToolError{Kind: string(e.Code), Message: e.Message, Field: "work_item_id",
			Hint: "list your work items to find its id"}
	case scheduler.CodeNoRun, scheduler.CodeQueueFull, scheduler.CodeAgentStopped, scheduler.CodeInvalidTimer,
		scheduler.CodeInvalidMessage, scheduler.CodeKeyConflict:
		// Their hints name commands of the operator, which an agent has not.
		return &hosttools.ToolError{Kind: string(e.Code), Message: e.Message, Field: e.Param,
			Retryable: e.Code == scheduler.CodeQueueFull}
	}
	return err
}

// show makes the result of a call. Without a text the model is shown the JSON.
func show(text string, v any) (hosttools.Result, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return hosttools.Result{}, fmt.Errorf("encode the result of a tool: %w", err)
	}
	if text == "" {
		text = string(data)
	}
	return hosttools.Result{Text: text, Structured: data}, nil
}
