package main

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"holon/internal/duration"
	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/activity"
	"holon/runner/egress"
	"holon/runner/oneshot"
	"holon/runner/present"
	"holon/runner/workspace"
	"holon/state"
	"holon/state/files"
)

// progress shows a turn, of a run or of an agent, from the one sequence of its events: on stderr one line for each
// thing that was done and on a terminal a last line with what is being done now, on stdout of a terminal the messages
// while they are written. A line, once printed, does not change.
type progress struct {
	streams Streams
	quiet   bool
	json    bool // the answer is not printed
	wraps   bool // Err is a terminal, although not one that is redrawn
	opening string
	insists bool // opening is shown although no progress is wanted
	started time.Time

	mu        sync.Mutex
	phase     string
	doing     string
	since     time.Time
	calls     []openCall      // that run, in the order in which they began
	denied    map[string]bool // connections whose denial was shown
	warned    []string        // warnings that were shown
	retried   retries         // what was shown of models that are asked again
	message   message         // the newest that was shown while it was written
	edited    []activity.File // by the turn
	shells    int             // calls that ran commands
	tokens    int64           // that the turn took so far
	fold      present.Fold    // of an agent's events
	announced map[string]bool // keys of rows that were printed
	final     *responses.Response
	drawn     bool // the status line is on the screen
	ticker    chan struct{}
	stop      sync.Once
	ended     sync.WaitGroup
}

func newProgress(streams Streams, quiet bool) *progress {
	p := &progress{streams: streams, quiet: quiet, started: time.Now(), since: time.Now(),
		denied: make(map[string]bool), announced: make(map[string]bool), ticker: make(chan struct{})}
	if streams.ErrTTY && !quiet {
		p.ended.Go(p.tick)
	}
	return p
}

// announce sets the line that is shown when the agent runs: of a run that cannot start only the error is shown.
func (p *progress) announce(engineName string, shot *oneshot.Run, parent *files.Entry) {
	where := engineName
	if engineName == "docker" {
		where += " " + shot.Session.Image
	}
	opening := fmt.Sprintf("running %s in %s", visible.OneLine(shot.Session.Model, 100), visible.OneLine(where, 200))
	if p := shot.Session.Egress; p != nil {
		opening += ", which may reach " + visible.OneLine(strings.Join(slices.Concat(p.Allowed(), p.Private()), ", "), 200)
	}
	if parent != nil {
		opening += ", going on with " + parent.ID
	}
	p.opening = opening + looser(&shot.Session)
}

// takeOver notes that this holon goes on with the run, so that Ctrl-C ends it. A watching person always sees this.
func (p *progress) takeOver(watched bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opening += ", whose holon was killed: the run goes on here, and Ctrl-C ends it"
	if watched {
		p.opening = strings.Replace(p.opening, "Ctrl-C ends", "Ctrl-C now ends", 1)
		p.insists = true
	}
}

// Phase notes the phase for the status line.
func (p *progress) Phase(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase, p.doing, p.since = name, "", time.Now()
	switch {
	case name != "turn" || p.opening == "":
	case p.quiet && p.insists:
		p.streams.say(p.opening)
	default:
		p.printLocked(p.opening)
	}
	p.draw()
}

// Begin shows what is known before the turn begins: what of the workspace is left out, and warnings.
func (p *progress) Begin(m *state.Manifest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range ignoredLines(workspaceOf(m).Ignored) {
		p.printLocked("  " + line)
	}
	for _, w := range m.Warnings {
		p.warnLocked(visible.OneLine(w, 1000))
	}
}

// maxIgnored bounds the paths that a line about ignored files names.
const maxIgnored = 4

// ignoredLines say what was copied of ignored files, and what was left out.
func ignoredLines(found *state.Ignored) (lines []string) {
	if found == nil {
		return nil
	}
	shown := func(paths []string) string {
		var names []string
		for _, path := range paths[:min(len(paths), maxIgnored)] {
			names = append(names, visible.Name(strings.TrimSuffix(path, "/")))
		}
		if len(paths) > maxIgnored {
			names = append(names, "…")
		}
		return strings.Join(names, ", ")
	}
	if len(found.Taken) > 0 {
		lines = append(lines, fmt.Sprintf("copied ignored files: %s (%s)", shown(found.Taken), visible.Size(found.Bytes)))
	}
	if found.Files > 0 {
		files := count(found.Files, "ignored file")
		if found.More {
			files = "more than " + files
		}
		line := fmt.Sprintf("left out %s: %s", files, shown(found.LeftOut))
		for _, name := range found.LeftOut {
			if !workspace.IsSecret(name) { // which a person has to name without a hint
				line += "; to copy them: --include-ignored " + visible.Name(strings.TrimSuffix(name, "/"))
				break
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// warnLocked shows a warning, which the summary then leaves out. The caller holds mu.
func (p *progress) warnLocked(warning string) {
	p.printLocked("  ! " + warning)
	p.warned = append(p.warned, warning)
}

// Fact shows rounds and tool calls. It is one switch over the kinds of facts, with a few lines for each.
func (p *progress) Fact(ev turns.RuntimeEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ev.Type {
	case turns.ModelCompleted, turns.ModelFailed, turns.ToolStarted:
		p.endMessage()
	}
	switch ev.Type {
	case turns.RuntimeWarning:
		if why, ok := oneshot.MCPWarning(ev); ok {
			p.warnLocked(why)
		}
	case turns.ModelRequested:
		var f turns.Requested
		if json.Unmarshal(ev.Payload, &f) == nil {
			p.doing, p.since = fmt.Sprintf("round %d: thinking", f.Round), time.Now()
		}
	case turns.ModelFailed:
		var f turns.AttemptFailure
		if json.Unmarshal(ev.Payload, &f) == nil {
			p.showRetry(f)
		}
	case turns.ToolStarted:
		var f turns.Begun
		if json.Unmarshal(ev.Payload, &f) == nil {
			call := openCall{present.CallOf(f.ToolName, f.Arguments), ev.ToolCallID, path.Join(turns.ToolsDir, f.CallID)}
			p.take(call.id)
			if len(p.calls) < maxCalls {
				p.calls = append(p.calls, call)
			}
			p.doing, p.since = call.Text, time.Now()
		}
	case turns.ToolResult, turns.ToolFailed:
		end, err := present.EndOf(p.take(ev.ToolCallID), ev.Payload)
		if err == nil {
			p.showCall(end)
		}
	case turns.CostRecorded:
		var c turns.Cost
		if json.Unmarshal(ev.Payload, &c) == nil && c.Usage != nil {
			p.tokens += c.Usage.TotalTokens
		}
	}
	p.draw()
}

func (p *progress) showRetry(f turns.AttemptFailure) {
	next, line := retry(f, &p.retried)
	if next != "" {
		p.doing, p.since = next, time.Now()
	}
	if line != "" {
		p.printLocked("  " + line)
	}
}

// retries is what was shown of failed requests.
type retries struct {
	why  string        // the newest reason
	wait time.Duration // the longest for it
}

// retry is what is done after a failed request, "" when no model is asked again: the end of the turn shows a failure
// for good. The line has the reason too. It comes once for a reason, and again for each wait that is at least twice
// as long as the last one shown, so that a long outage shows some lines.
func retry(f turns.AttemptFailure, shown *retries) (next, line string) {
	pause := (time.Duration(f.BackoffMS) * time.Millisecond).Round(100 * time.Millisecond)
	next = "asking the next model"
	if !f.AdvancedToFallback {
		if pause == 0 || f.ProviderAttempt == nil {
			return "", ""
		}
		next = "retrying in " + duration.Text(pause)
		if f.Outcome == turns.OutcomeRetrying {
			next += fmt.Sprintf(" (%d/%d)", f.ProviderAttempt.Attempt, f.ProviderAttempt.MaxAttempts-1)
		}
	}
	why := visible.OneLine(f.Message, 200)
	if why != shown.why {
		*shown = retries{why: why}
	} else if !f.AdvancedToFallback && (f.Outcome != turns.OutcomeExhausted || pause < 2*shown.wait) {
		return next, ""
	}
	if f.Outcome == turns.OutcomeExhausted {
		shown.wait = max(shown.wait, pause)
	}
	return next, "! " + visible.WithRemedy(why, next)
}

// Egress shows what was denied, once each: an agent tries again.
func (p *progress) Egress(f egress.Fact) {
	if f.Decision == nil || f.Decision.Verdict != turns.VerdictDenied {
		return
	}
	what := oneshot.DescribeDenial(*f.Decision)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.denied[what] || len(p.denied) == maxDenied {
		return
	}
	p.denied[what] = true
	p.printLocked("  ! network: denied " + what)
	if len(p.denied) == maxDenied {
		p.printLocked("  ! network: more is denied, see " + runner.EgressFile)
	}
}

// Bounds of the lines about what was denied, and of the calls that run at a time.
const (
	maxDenied = 20
	maxCalls  = 1000
)

// openCall is a call that has begun and not ended.
type openCall struct {
	present.Call
	id, dir string // dir has its output
}

// take takes a call out of those that run, nil for one that did not begin.
func (p *progress) take(id string) *present.Call {
	i := slices.IndexFunc(p.calls, func(c openCall) bool { return c.id == id })
	if i < 0 {
		return nil
	}
	call := p.calls[i].Call
	p.calls = slices.Delete(p.calls, i, i+1)
	return &call
}

// showCall shows what a call did: on a terminal also the change of an edit, and what a command printed last that
// failed or took long.
func (p *progress) showCall(end present.End) {
	if strings.HasPrefix(end.Text, "$ ") {
		p.shells++
	}
	note := outcomeNote(end.ExitCode, len(end.Files) > 0, end.Summary)
	if end.Failure != "" {
		note = "  failed: " + visible.OneLine(end.Failure, 160)
	}
	p.printLocked("  " + p.streams.callLine(end.Text, "  ("+elapsed(end.DurationMS)+")"+note))
	p.doing, p.since = "", time.Now()
	if end.Failure == "" {
		p.noteEdits(end.Files)
		p.showDetails(end, note != "")
	}
}

func (p *progress) showDetails(call present.End, noted bool) {
	if !p.streams.ErrTTY {
		return
	}
	for i, line := range call.Diff {
		if i == maxDetails && len(call.Diff) > i+1 {
			p.printLocked("      " + p.streams.paint(styleDim, fmt.Sprintf("… %d more lines", len(call.Diff)-i)))
			break
		}
		style := styleGreen
		if line[0] == '-' {
			style = styleRed
		}
		p.printStyled("      ", style, line)
	}
	if noted && call.ExitCode != nil || call.DurationMS >= longCommand.Milliseconds() {
		for _, line := range call.Output[max(0, len(call.Output)-maxDetails/2):] {
			p.printStyled("      ", styleDim, line)
		}
	}
}

func (p *progress) noteEdits(files []activity.File) {
	for _, f := range files {
		i := slices.IndexFunc(p.edited, func(e activity.File) bool { return e.Path == f.Path })
		if i < 0 {
			p.edited = append(p.edited, f)
			continue
		}
		p.edited[i].Added += f.Added
		p.edited[i].Deleted += f.Deleted
	}
}

// outcomeNote says how a call of a tool ended, behind what it did: "" when that says enough.
func outcomeNote(exitCode *int, edited bool, summary string) string {
	switch {
	case exitCode != nil && *exitCode != 0:
		return fmt.Sprintf("  exit %d", *exitCode)
	case exitCode == nil && !edited:
		return "  " + visible.OneLine(summary, 120)
	}
	return ""
}

// Bounds of what is shown of a call.
const (
	maxDetails  = 6
	minStatus   = 30 // columns of a status line that has room for what the whole took
	longCommand = 3 * time.Second
)

// callLine is what a call did and how it ended, whole in a pipe. On a terminal it is one row, in which neither takes
// the room of the other.
func (s Streams) callLine(what, end string) string {
	if !s.ErrTTY {
		return what + end
	}
	space := max(s.ofErr().Width()-3, 2)
	end = cut(end, max(space-cells(what), space/2))
	return cut(what, space-cells(end)) + end
}

// printStyled prints a line that is cut to the terminal's width.
func (p *progress) printStyled(indent, style, text string) {
	p.printLocked(indent + p.streams.paint(style, cut(text, p.streams.ofErr().Width()-1-len(indent))))
}

func (p *progress) println(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.printLocked(s)
}

// printLocked prints a line above the status line. The caller holds mu.
func (p *progress) printLocked(s string) {
	if p.quiet {
		return
	}
	p.erase()
	s = p.streams.defuse(s)
	if (p.streams.ErrTTY || p.wraps) && !strings.ContainsAny(s, "\n\x1b") { // what has styles is cut already
		text := strings.TrimLeft(s, " ")
		indent := s[:len(s)-len(text)]
		s = strings.Join(p.streams.ofErr().fold(indent, indent+"  ", text), "\n")
	}
	fmt.Fprintln(p.streams.Err, s)
	p.draw()
}

// draw shows the status line on a terminal. The caller holds mu.
func (p *progress) draw() {
	if !p.streams.ErrTTY || p.quiet || p.phase == "" {
		return
	}
	doing := p.doing
	if doing == "" {
		doing = p.phase
	}
	clock := fmt.Sprintf("  %ds", int(time.Since(p.since).Seconds()))
	if p.tokens > 0 && p.streams.ofErr().Width() >= 2*minStatus {
		clock += fmt.Sprintf(" of %s, %d tokens", elapsed(time.Since(p.started).Milliseconds()), p.tokens)
	}
	text := cut(doing, p.streams.ofErr().Width()-1-len(clock)) + clock
	fmt.Fprint(p.streams.Err, "\r\x1b[K"+p.streams.paint(styleDim, p.streams.defuse(text)))
	p.drawn = true
}

func (p *progress) erase() {
	if p.drawn {
		fmt.Fprint(p.streams.Err, "\r\x1b[K")
		p.drawn = false
	}
}

func (p *progress) tick() {
	for {
		select {
		case <-p.ticker:
			return
		case <-time.After(time.Second):
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

// end removes the status line and stops the clock.
func (p *progress) end() {
	p.stop.Do(func() { close(p.ticker) })
	p.ended.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	p.phase = ""
}

var _ oneshot.Watcher = (*progress)(nil)
