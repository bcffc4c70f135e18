package present

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"holon/internal/duration"
	"holon/responses/turns"
	"holon/runner/agent/view"
	"holon/state/ledger"
)

// has reports whether an event is of the turn that goes on.
func (t *turn) has(ev *view.EventEnvelope) bool {
	return ev.Provenance.TurnID == t.TurnID && t.TurnID != ""
}

// enter makes the turn of an event the one under way: its beginning may be older than what is folded.
func (t *turn) enter(ev *view.EventEnvelope) bool {
	if !t.has(ev) {
		*t = turn{Status: Status{TurnID: ev.Provenance.TurnID, MessageID: ev.Provenance.MessageID, Since: ev.TS}}
	}
	return t.TurnID != ""
}

// turnStarted is the row of a turn. Those that the agent makes for itself have one row together.
func (f *Fold) turnStarted(ev *view.EventEnvelope) []Row {
	f.turn = turn{}
	f.turn.enter(ev)
	if f.turn.own = f.self.has(ev); f.turn.own {
		f.turn.row = f.self.begin(ev)
		return []Row{f.turn.row}
	}
	f.self = selfRun{made: f.self.made} // messages that wait while another one has its turn
	row := rowOf(ev)
	row.Key, row.Category, row.Level, row.Open = "turn-"+row.TurnID, CategoryRuntime, Verbose, true
	f.turn.row = row
	return []Row{row}
}

// turnChanged is something about the turn that goes on.
func (f *Fold) turnChanged(ev *view.EventEnvelope) []Row {
	if !f.turn.has(ev) || f.turn.row.Key == "" {
		return nil
	}
	f.turn.row.Title, f.turn.row.Summary, f.turn.row.Seq = ev.Display.Title, ev.Display.Summary, ev.EventSeq
	return []Row{f.turn.row}
}

// turnEnded is the row of a turn that has ended, in the place of the one that said that it goes on. One that failed is
// shown in every mode, also one that the agent made for itself.
func (f *Fold) turnEnded(ev *view.EventEnvelope) (rows []Row) {
	f.turn.enter(ev)
	f.turn.Doing = ""
	for _, c := range f.turn.calls { // their ends were lost
		c.row.Open = false
		rows = append(rows, c.row)
	}
	f.turn.calls = nil
	for i := range f.turn.texts {
		if t := &f.turn.texts[i]; t.row.Open {
			if t.row.Open = false; t.whole == "" { // the record has none: who comes later does not see it either
				t.row.Level = Never
			}
			rows = append(rows, t.shown())
		}
	}
	end := ev.Payload.Turn
	failed := end != nil && end.Kind != ledger.TurnCompleted
	if f.turn.own {
		f.turn.row.Open, f.turn.row.Seq = false, ev.EventSeq
		rows = append(rows, f.turn.row)
		if !failed {
			return rows
		}
	}
	if begun := f.turn.row; !f.turn.own && begun.Key != "" { // its end stands below what it did
		begun.Level, begun.Open = Never, false
		rows = append(rows, begun)
	}
	row := rowOf(ev)
	row.Key, row.Level, row.Failed = "end-"+row.TurnID, Verbose, failed
	if failed {
		row.Level, row.Visibility = Info, "turn_result"
		if f.turn.retry.Key != "" && strings.HasSuffix(f.turn.retry.Body, row.Body) { // the same fact
			f.turn.retry.Level = Never
			rows = append(rows, f.turn.retry)
		}
	} else if end != nil {
		row.Body = Took(end.DurationMS, end.ModelRounds, end.ToolCalls, end.TokenUsage)
		if f.turn.cost > 0 {
			row.Body += ", cost " + f.turn.cost.String()
		}
		row.Summary = row.Title + " in " + row.Body
	}
	f.turn.row = row
	return append(rows, row)
}

// turnFailed adds to the row of a turn why it failed, where that is not told yet.
func (f *Fold) turnFailed(ev *view.EventEnvelope) []Row {
	row := rowOf(ev)
	row.Failed, row.Level = true, Info
	if !f.turn.has(ev) || f.turn.row.Key == "" || f.turn.own && !f.turn.row.Failed {
		return []Row{row}
	}
	row.Key, row.Title, row.Open = f.turn.row.Key, f.turn.row.Title, f.turn.row.Open
	row.Summary = summary(row.Title, row.Body)
	f.turn.row = row
	return []Row{row}
}

// Took says what a turn took: "1.2s: 3 rounds, 2 tool calls, 5782 tokens in, 25 out".
func Took(ms int64, rounds, calls int, used *turns.Usage) string {
	text := fmt.Sprintf("%s: %s, %s", duration.Text(time.Duration(ms)*time.Millisecond), count(rounds, "round"),
		count(calls, "tool call"))
	if used != nil && used.TotalTokens > 0 {
		text += fmt.Sprintf(", %[1]s%[2]d tokens in, %[1]s%[3]d out", used.Mark(), used.InputTokens, used.OutputTokens)
	}
	return text
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// selfRun is turns that the agent makes for itself, one after another, and that have nothing new: they are one row.
type selfRun struct {
	made  map[string]string // kinds of the messages, by id
	key   string            // of the row; "": the next turn begins one
	kinds []string          // of the turns so far, each once
	count int
	text  string // the newest answer
}

// own are the kinds of messages by which an agent or the runtime goes on by itself.
var own = []ledger.MessageKind{ledger.KindSystemTick, ledger.KindTimerTick, ledger.KindInternalFollowup,
	ledger.KindControl, ledger.KindTaskStatus, ledger.KindBriefAck, ledger.KindBriefResult}

func (s *selfRun) takes(m *ledger.Message) bool {
	if !slices.Contains(own, m.Kind) {
		return false
	}
	if s.made == nil || len(s.made) == most {
		s.made = map[string]string{}
	}
	s.made[m.ID] = strings.ReplaceAll(string(m.Kind), "_", " ")
	return true
}

// has reports whether an event is about such a message.
func (s *selfRun) has(ev *view.EventEnvelope) bool { return s.made[ev.Provenance.MessageID] != "" }

// begin is the row with one more turn.
func (s *selfRun) begin(ev *view.EventEnvelope) Row {
	if s.key == "" {
		s.key, s.kinds, s.count = "self-"+ev.Provenance.TurnID, nil, 0
	}
	kind := s.made[ev.Provenance.MessageID]
	if s.count++; !slices.Contains(s.kinds, kind) {
		s.kinds = append(s.kinds, kind)
	}
	row := rowOf(ev)
	row.Key, row.Category, row.Level, row.Open = s.key, CategoryRuntime, Verbose, true
	row.Title, row.Body = count(s.count, "turn")+" of its own", strings.Join(s.kinds, ", ")
	row.Summary = summary(row.Title, row.Body)
	return row
}

// repeats reports whether a turn of its own says what the one before said.
func (s *selfRun) repeats(text string) bool { return s.count > 1 && sameText(text, s.text) }

// answers notes a new answer; breaks something else that is new. The next turn begins a new row.
func (s *selfRun) answers(text string) {
	if s.count > 1 {
		s.key = ""
	}
	s.text = text
}

func (s *selfRun) breaks(own bool) {
	if own {
		s.key, s.text = "", ""
	}
}

func sameText(a, b string) bool {
	return strings.Join(strings.Fields(a), " ") == strings.Join(strings.Fields(b), " ")
}

// cutOf reports whether a text is the beginning of a whole one, as a record has room for it.
func cutOf(whole, text string) bool {
	beginning, cut := strings.CutSuffix(text, "…")
	return cut && strings.HasPrefix(strings.TrimSpace(whole), beginning)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
