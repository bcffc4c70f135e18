package ledger

import (
	"encoding/json"
	"slices"
	"time"
)

// BriefKind is what a brief tells.
type BriefKind string

const (
	BriefAck     BriefKind = "ack"
	BriefResult  BriefKind = "result"
	BriefFailure BriefKind = "failure"
)

// Brief is what an agent tells its operator (runtime specification, "Brief
// Output Contract").
type Brief struct {
	ID          string      `json:"id"`
	AgentID     string      `json:"agent_id"`
	WorkspaceID string      `json:"workspace_id,omitempty"`
	WorkItemID  string      `json:"work_item_id,omitempty"`
	Kind        BriefKind   `json:"kind"`
	CreatedAt   time.Time   `json:"created_at"`
	Text        string      `json:"text"`
	Attachments []BriefFile `json:"attachments,omitempty"`
	MessageID   string      `json:"related_message_id,omitempty"`
	TaskID      string      `json:"related_task_id,omitempty"`
	TurnID      string      `json:"turn_id,omitempty"`
}

// BriefFile goes with a brief.
type BriefFile struct {
	Kind  string          `json:"kind"` // file, log, diff, image, json
	Name  string          `json:"name"`
	URI   string          `json:"uri,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Notification is something the operator should see (document 001).
type Notification struct {
	ID            string    `json:"notification_id"`
	AgentID       string    `json:"agent_id"`
	RequestedBy   string    `json:"requested_by_agent_id"`
	Boundary      string    `json:"target_operator_boundary"` // primary_operator, parent_supervisor
	ParentID      string    `json:"target_parent_agent_id,omitempty"`
	Message       string    `json:"message"`
	Summary       string    `json:"summary"`
	WorkItemID    string    `json:"work_item_id,omitempty"`
	CorrelationID string    `json:"correlation_id,omitempty"`
	CausationID   string    `json:"causation_id,omitempty"` // the message of the turn in which it was made
	CreatedAt     time.Time `json:"created_at"`

	// Kind and SubjectID are its matter: one notification of a matter is open at a time. Without a subject only the
	// operator ends it.
	Kind       NoticeKind `json:"kind"`
	SubjectID  string     `json:"subject_id,omitempty"`
	ResolvedAt *time.Time `json:"resolved_at,omitempty"` // the matter was settled, or the operator has seen it
	ResolvedBy string     `json:"resolved_by,omitempty"` // operator, runtime
}

// NoticeKind is what a notification is about.
type NoticeKind string

const (
	NoticeGeneral      NoticeKind = "general"
	NoticeInput        NoticeKind = "needs_input"               // subject: the work item
	NoticeRecheck      NoticeKind = "recheck_consumed"          // subject: the work item
	NoticeBlocked      NoticeKind = "message_blocked"           // subject: the agent
	NoticeGivenUp      NoticeKind = "message_given_up"          // no subject
	NoticeStopped      NoticeKind = "progress_stopped"          // subject: the agent
	NoticeBudget       NoticeKind = "budget_spent"              // subject: the agent
	NoticeTrigger      NoticeKind = "trigger_revoked"           // subject: the wait
	NoticeConversation NoticeKind = "conversation_lost"         // no subject
	NoticeSmall        NoticeKind = "conversation_budget_small" // subject: the agent
	NoticeTest         NoticeKind = "test"                      // no subject; it is resolved when it is made
)

func matter(kind NoticeKind, subject string) string { return string(kind) + " " + subject }

func (b *Brief) Row() Row { return Row{"briefs", "brief", 1, kept(&b.ID, &b.AgentID, b.CreatedAt)} }

func (n *Notification) Row() Row {
	open := ""
	if n.ResolvedAt == nil && n.SubjectID != "" {
		open = matter(n.Kind, n.SubjectID)
	}
	return Row{"notifications", "notification", 1, append(kept(&n.ID, &n.AgentID, n.CreatedAt), Column{"matter", open})}
}

// Brief returns a brief.
func (v View) Brief(id string) (Brief, error) { return get[Brief](v, id) }

// Briefs returns the newest briefs of an agent.
func (v View) Briefs(agentID string, limit int) ([]Brief, error) {
	return newest[Brief](v, "briefs", agentID, limit)
}

// BriefsAfter returns the first briefs of an agent after the one with a number, the oldest first, and their numbers,
// which grow and are never used again.
func (v View) BriefsAfter(agentID string, number int64, limit int) (briefs []Brief, numbers []int64, err error) {
	briefs, err = list[Brief](v, "briefs after", agentID, number, limited(limit))
	if err == nil {
		numbers, err = values[int64](v, "brief numbers after", agentID, number, limited(limit))
	}
	return briefs, numbers, err
}

// OldestBrief returns the number of the oldest brief of an agent, 0 when it has none.
func (v View) OldestBrief(agentID string) (int64, error) {
	n, err := count(v, "oldest brief", agentID)
	return int64(n), err
}

// Notification returns a notification.
func (v View) Notification(id string) (Notification, error) { return get[Notification](v, id) }

// Notifications returns the newest notifications of an agent.
func (v View) Notifications(agentID string, limit int) ([]Notification, error) {
	return newest[Notification](v, "notifications", agentID, limit)
}

// OpenNotifications returns the notifications of a matter that are open, the oldest first.
func (v View) OpenNotifications(agentID string, kind NoticeKind, subject string) ([]Notification, error) {
	open, err := list[Notification](v, "open notifications", agentID)
	return slices.DeleteFunc(open, func(n Notification) bool { return n.Kind != kind || n.SubjectID != subject }), err
}
