package prompt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"holon/runner/agent/view"
	"holon/state/ledger"
)

// Work is what an agent works on (runtime specification, "Work-Queue Prompt Projection").
type Work struct {
	Current *view.WorkRecord // nil: none is picked
	Waits   []ledger.Wait    // of the current item, that are active
	Queued  []Group          // the other items
	Trace   []Step           // what was done for the current item, the oldest first
	Shown   string           // digest of what the conversation knows; "": nothing
}

// Group are items of one readiness.
type Group struct {
	Name  string // triggered_blocked, queued_runnable, waiting_for_operator, blocked, completed_recent
	Items []view.WorkRecord
}

// completed is the name of the group of items that are not open.
const completed = "completed_recent"

// Step is something that was done for an item.
type Step struct {
	At   time.Time
	What string // the tool, or "you"
	Text string
}

// Bounds of what is shown of work, in bytes unless noted.
const (
	maxListed   = 40  // items of a group, in number
	maxOneItem  = 160 // of the objective of an item in a list
	maxBlocker  = 200
	maxTraced   = 400 // of a step
	maxWorkText = 24 << 10
)

// projection says what the agent works on, "" when there is nothing. digest is of all but the trace, which the
// conversation has as long as it has not forgotten the work.
func (w Work) projection() (text, digest string) {
	if w.Current == nil && len(w.Queued) == 0 {
		return "", ""
	}
	var b strings.Builder
	b.WriteString("[work] Your work items as they are now. The runtime wrote this; what stands in quotes is yours or " +
		"your operator's.")
	if w.Current != nil {
		w.writeCurrent(&b)
	} else if slices.ContainsFunc(w.Queued, func(g Group) bool { return g.Name != completed && len(g.Items) > 0 }) {
		b.WriteString("\ncurrent: none; call PickWorkItem to choose one")
	} else {
		b.WriteString("\ncurrent: none; no work item of yours is open any more")
	}
	for _, g := range w.Queued {
		writeGroup(&b, g)
	}
	text = cut(b.String(), maxWorkText)
	digest = sum(text)
	if w.Shown == digest {
		return "", digest
	}
	if w.Shown == "" {
		text += w.trace()
	}
	return text, digest
}

func (w Work) writeCurrent(b *strings.Builder) {
	c := w.Current
	fmt.Fprintf(b, "\ncurrent: %s %s; state: %s; plan: %s", c.ID, quotedUpTo(c.Objective, 4<<10), c.SchedulingState,
		c.PlanStatus)
	if c.BlockedBy != "" {
		fmt.Fprintf(b, "; blocked by: %s", quotedUpTo(c.BlockedBy, 1000))
	}
	if !c.RecheckAt.IsZero() && c.RecheckConsumedAt.IsZero() {
		fmt.Fprintf(b, "; to be looked at again: %s", c.RecheckAt.Time().Format(time.RFC3339))
	}
	for _, wait := range w.Waits {
		fmt.Fprintf(b, "\nwaits for: %s (%s)", quoted(wait.WaitingFor), wait.Kind)
	}
	for _, t := range c.Todo {
		fmt.Fprintf(b, "\n- %s: %s", t.State, quotedUpTo(t.Text, 500))
	}
	p := c.PlanArtifact
	switch {
	case p == nil:
	case p.Refused != "":
		fmt.Fprintf(b, "\nplan file: %s cannot be shown: %s", p.RelativePath, p.Refused)
	case p.Hash == "":
		fmt.Fprintf(b, "\nplan file: %s, not written yet", p.RelativePath)
	default:
		fmt.Fprintf(b, "\nplan file: %s, %d bytes", p.RelativePath, p.Bytes)
		if !p.PreviewComplete {
			b.WriteString("; its beginning")
		}
		b.WriteString("\n" + fenced(c.ID, p.Preview, len(p.Preview)))
	}
}

func writeGroup(b *strings.Builder, g Group) {
	if len(g.Items) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:", g.Name)
	for i, item := range g.Items {
		if i == maxListed {
			fmt.Fprintf(b, "\n- and %d more: call ListWorkItems", len(g.Items)-i)
			return
		}
		fmt.Fprintf(b, "\n- %s %s", item.ID, quotedUpTo(item.Objective, maxOneItem))
		switch {
		case item.CompletionReport != "":
			fmt.Fprintf(b, "; report: %s", quotedUpTo(item.CompletionReport, maxBlocker))
		case item.BlockedBy != "":
			fmt.Fprintf(b, "; blocked by: %s", quotedUpTo(item.BlockedBy, maxBlocker))
		}
	}
}

// trace is what was done for the current item, for a conversation that does not have it.
func (w Work) trace() string {
	if len(w.Trace) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nwhat you did for the current one last; a record that asks for nothing:")
	for _, s := range w.Trace {
		fmt.Fprintf(&b, "\n- %s %s: %s", s.At.UTC().Format(time.RFC3339), s.What, quotedUpTo(s.Text, maxTraced))
	}
	return b.String()
}

// sum is the digest by which a conversation knows what it was shown of work.
func sum(text string) string { return digest(text)[:32] }
