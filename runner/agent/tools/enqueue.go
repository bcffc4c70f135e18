package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/hosttools"
	"holon/state"
	"holon/state/ledger"
)

// Bounds of what an agent gives itself to do.
const (
	maxNote     = 32 << 10 // bytes of one
	maxFollowUp = 8        // that come of one message
	looksBack   = 200      // newest messages among which they are counted
)

const enqueueDescription = "Puts a note to yourself in your queue. It begins a turn of its own when this one has " +
	"ended and no message of anyone else waits; next, normal and background order your own notes. " +
	"At most 8 come of one message and 32 wait; what you can do now, do now. Turns of your own that change " +
	"nothing come at growing intervals, and after 12 of them your operator is asked."

// subsystem is the origin of notes of an agent to itself.
const subsystem = "enqueue_tool"

// enqueue is Enqueue. It serialises its calls, so that concurrent ones cannot exceed
// the bound together.
type enqueue struct {
	Options
	mu sync.Mutex
}

// enqueued is the result (runtime specification, "EnqueueResult").
type enqueued struct {
	Enqueued  bool            `json:"enqueued"`
	Priority  ledger.Priority `json:"priority"`
	Text      string          `json:"follow_up_text"`
	MessageID string          `json:"message_id"`
	Summary   string          `json:"summary_text"`
}

// note is what Enqueue is called with.
type note struct {
	Text     string          `json:"text" jsonschema:"what to do then, so that it can be understood alone; at most 32768 bytes"`
	Priority ledger.Priority `json:"priority,omitempty" jsonschema:"normal if left out"`
}

func (e *enqueue) call(ctx context.Context, c hosttools.Call, args note) (hosttools.Result, error) {
	if args.Priority == "" {
		args.Priority = ledger.Normal
	}
	switch args.Text = strings.TrimSpace(args.Text); {
	case args.Text == "":
		return hosttools.Result{}, invalid("text", "the text is empty", "say what to do then")
	case len(args.Text) > maxNote:
		return hosttools.Result{}, invalid("text",
			fmt.Sprintf("the text has %d bytes and may have %d", len(args.Text), maxNote),
			"put the details into a file and name it")
	case args.Priority != ledger.Next && args.Priority != ledger.Normal && args.Priority != ledger.Background:
		return hosttools.Result{}, invalid("priority", fmt.Sprintf("%.40q is not a priority of a note", args.Priority),
			"use next, normal or background")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	in, err := e.draft(ctx, c.ID)
	if err != nil {
		return hosttools.Result{}, err
	}
	in.Priority, in.Body = args.Priority, ledger.Body{Type: "text", Text: args.Text}
	adm, err := e.Scheduler.Admit(ctx, in)
	if err != nil {
		return hosttools.Result{}, err
	}
	summary := fmt.Sprintf("Enqueued with priority %s. It gets a turn of its own.", args.Priority) + e.unlessIdle(ctx)
	return show(summary, enqueued{Enqueued: true, Priority: args.Priority, Text: args.Text, MessageID: adm.MessageID,
		Summary: summary})
}

// draft is the message of a note. That of a call which was made before is
// found again by its key; a new one needs a turn that runs and may make it.
func (e *enqueue) draft(ctx context.Context, callID string) (ledger.Message, error) {
	sum := sha256.Sum256([]byte(callID)) // it names its turn
	in := ledger.Message{
		AgentID: e.AgentID, Key: "enqueue-" + hex.EncodeToString(sum[:16]), Kind: ledger.KindInternalFollowup,
		Origin:  ledger.Origin{Kind: ledger.OriginSystem, Subsystem: subsystem},
		Surface: ledger.SurfaceSystem, AdmissionContext: ledger.RuntimeOwned,
	}
	err := e.Ledger.View(ctx, func(v ledger.View) error {
		if made, ok, err := v.MessageByKey(e.AgentID, in.Key); ok || err != nil {
			in.CausationID = made.CausationID
			return err
		}
		a, ok, err := v.OpenAttempt(e.AgentID)
		if err != nil {
			return err
		}
		if !ok || a.AbortedBy != "" {
			return &state.Error{Code: scheduler.CodeNoRun, Message: "no turn runs that could leave a note"}
		}
		in.CausationID = a.MessageID
		return mayFollow(v, e.AgentID, a.MessageID)
	})
	return in, err
}

// unlessIdle is what the agent reads of what it leaves to a later turn of its own, when there will be none unless
// this turn changes something; "" otherwise.
func (o Options) unlessIdle(ctx context.Context) string {
	state, err := ledger.Read(ctx, o.Ledger, func(v ledger.View) (ledger.AgentState, error) {
		return v.AgentState(o.AgentID)
	})
	if err != nil || state.Progress.Idle+1 < rules.MaxIdle {
		return ""
	}
	return fmt.Sprintf(" But this is turn %d of yours in a row: if it changes neither a work item nor a file of your "+
		"home, this is dropped when it ends, and your operator is asked.", state.Progress.Idle+1)
}

// mayFollow counts what came of a message so far.
func mayFollow(v ledger.View, agentID, messageID string) error {
	newest, err := v.Messages(agentID, looksBack)
	if err != nil {
		return err
	}
	n := 0
	for _, m := range newest {
		if m.Origin.Subsystem == subsystem && m.CausationID == messageID {
			n++
		}
	}
	if n >= maxFollowUp {
		return &hosttools.ToolError{Kind: string(scheduler.CodeSelfLimit),
			Message: fmt.Sprintf("%d notes to yourself came of this message, and no more may", n),
			Hint:    "put what is left into one of the next turns"}
	}
	return nil
}
