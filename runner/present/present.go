// Package present turns what happened into rows for a person: the one presentation of an agent's events and of a turn,
// which the terminal, the TUI and the web console draw each in its way (runtime specification, "Local Operator Console
// Contract"). It does no I/O and knows no clock.
//
// The invariant: one fact is one row. A fact that is told again, or that goes on, changes its row.
package present

import (
	"fmt"

	"holon/responses/turns"
	"holon/runner/activity"
	"holon/runner/agent/record"
)

// Mode is how much is shown. A row is shown in the modes of at least its level.
type Mode int

// The modes, whose numbers are the levels of events. Raw events are for inspectors and have no mode.
const (
	Info    Mode = 3 // results, and what asks for action
	Verbose Mode = 4 // and what the agent does
	Debug   Mode = 5 // and the runtime's own steps
)

// Never is the level of a row that is taken back: what it told of is told by another, or did not last.
const Never Mode = 6

// ParseMode reads the name or the number of a mode.
func ParseMode(s string) (Mode, error) {
	for _, m := range []Mode{Info, Verbose, Debug} {
		if s == m.String() || s == fmt.Sprint(int(m)) {
			return m, nil
		}
	}
	return 0, fmt.Errorf("%.40q is not a display mode: use info, verbose or debug, or 3 to 5", s)
}

func (m Mode) String() string {
	switch m {
	case Info:
		return "info"
	case Verbose:
		return "verbose"
	}
	return "debug"
}

// Row is a fact for a person. Its texts are the agent's and others': who draws them makes them harmless.
type Row struct {
	Key        string // the row of the same key is this one, earlier
	Seq        int64  // number of the newest event in it; 0: of none
	At         turns.Time
	TurnID     string // "": of no turn
	MessageID  string // of the message that the turn is for
	Level      Mode   // the least mode that shows it, or Never
	Visibility string // action_required, work_done, turn_result, progress, trace
	Category   string // see Categories
	Title      string // a few words
	Body       string // any number of lines; "": none
	Summary    string // one line, which stands for the row
	Source     string // kind of the event it came from
	Markdown   bool   // Body is Markdown
	Open       bool   // it goes on: a call that runs, a text that is written
	Failed     bool   // what it tells of did not work
	Call       *Call  // of a row of the category tool
}

// Call is a call of a tool.
type Call struct {
	Text       string // the command, the edit
	Files      []activity.File
	Diff       []string // lines of an edit, which begin with + or -
	Output     []string // the last lines of what a command printed
	ExitCode   *int
	DurationMS int64 // 0: it runs
}

// List is rows as they are now, in the order in which their keys came. The zero List is empty.
type List struct {
	rows []Row
	at   map[string]int
}

// Put adds rows, or changes those that have their keys.
func (l *List) Put(rows ...Row) {
	for _, row := range rows {
		if i, ok := l.at[row.Key]; ok {
			l.rows[i] = row
			continue
		}
		if l.at == nil {
			l.at = map[string]int{}
		}
		l.at[row.Key] = len(l.rows)
		l.rows = append(l.rows, row)
	}
}

// Rows returns those that a mode shows.
func (l *List) Rows(mode Mode) (shown []Row) {
	for _, row := range l.rows {
		if row.Level <= mode {
			shown = append(shown, row)
		}
	}
	return shown
}

// Categories of rows are those of events.
const (
	CategoryNotification = record.CategoryNotification
	CategoryBrief        = record.CategoryBrief // the agent's answer
	CategoryMessage      = record.CategoryMessage
	CategoryWork         = record.CategoryWork
	CategoryTask         = record.CategoryTask
	CategoryWaiting      = record.CategoryWaiting
	CategoryWorkspace    = record.CategoryWorkspace
	CategoryRuntime      = record.CategoryRuntime
	CategoryProgress     = record.CategoryProgress
	CategoryTool         = record.CategoryTool
	CategoryState        = record.CategoryState
	CategoryTrace        = record.CategoryTrace
)

// Categories has them all.
var Categories = record.Categories

// Status is what goes on now, for the line that says so: its reader knows the time. The zero Status is rest.
type Status struct {
	TurnID    string
	MessageID string // that the turn is for
	Since     turns.Time
	Doing     string // "round 2: thinking", "$ make test"
	ToolCalls int    // that the turn made so far
	Input     int64  // tokens that the turn read so far
	Output    int64  // tokens that it wrote
}
