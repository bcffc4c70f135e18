package turns

import (
	"cmp"

	"holon/responses"
)

// End is what is known of the end of a turn in addition to its response.
type End struct {
	DurationMS  int64
	Rounds      int
	ToolCalls   int
	Usage       *Usage   // nil: none is known
	OpenActions []string // what the client has to answer
	Phase       string   // as in Failure
	Lost        string   // what cut the turn off, as process_end; "" for a turn that came to its end
}

// TurnEnded closes the events of a turn as its response ended.
func (s Scope) TurnEnded(resp *responses.Response, end End) RuntimeEvent {
	if resp.Status == responses.StatusCompleted {
		p := Completed{ResponseID: resp.ID, DurationMS: end.DurationMS, Rounds: end.Rounds, ToolCalls: end.ToolCalls,
			Usage: *cmp.Or(end.Usage, &Usage{}), OpenActions: end.OpenActions, TerminalKind: "answered"}
		if len(end.OpenActions) > 0 {
			p.TerminalKind = "client_tools"
		}
		return s.Event(TurnCompleted, p)
	}
	status := StatusFailed
	p := Failure{FailureCategory: "incomplete", Phase: end.Phase, ResponseID: resp.ID, DurationMS: end.DurationMS,
		InterruptedBy: end.Lost, Rounds: end.Rounds, ToolCalls: end.ToolCalls, Usage: end.Usage, OpenActions: end.OpenActions}
	if d := resp.IncompleteDetails; d != nil {
		p.IncompleteReason, p.Message = d.Reason, "the turn ended early: "+d.Reason
		if d.Reason == responses.ReasonTimeout {
			status = StatusTimedOut
		}
	}
	if e := resp.Error; e != nil {
		p.FailureCategory, p.Message = e.Code, e.Message
	}
	switch {
	case resp.Status == responses.StatusCancelled:
		status = StatusCancelled
	case end.Lost != "":
		status = StatusLost
	}
	e := s.Event(TurnFailed, p)
	e.Status = status
	return e
}
