package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/egress"
	"holon/runner/oneshot"
	"holon/runner/workspace"
	"holon/state"
)

// progress shows a run on stderr: one line for each thing that was done, and on
// a terminal a last line that says what is being done now. It is calm: a line,
// once printed, does not change.
type progress struct {
	streams Streams
	quiet   bool
	opening string
	started time.Time

	mu      sync.Mutex
	phase   string
	doing   string
	since   time.Time
	calls   map[string]string // what running tool calls do, by id
	denied  map[string]bool   // connections of which it was said
	retried string            // the newest reason to ask a model again of which it was said
	final   *responses.Response
	drawn   bool // the status line is on the screen
	ticker  chan struct{}
	stop    sync.Once
	ended   sync.WaitGroup
}

func newProgress(streams Streams, quiet bool) *progress {
	p := &progress{streams: streams, quiet: quiet, started: time.Now(), since: time.Now(),
		calls: make(map[string]string), denied: make(map[string]bool), ticker: make(chan struct{})}
	if streams.ErrTTY && !quiet {
		p.ended.Go(p.tick)
	}
	return p
}

// announce notes what is to be said when the agent runs: a run that cannot start
// has its error to say and nothing else.
func (p *progress) announce(engineName string, shot *oneshot.Run) {
	where := engineName
	if engineName == "docker" {
		where += " " + shot.Session.Image
	}
	opening := fmt.Sprintf("running %s in %s", visible.OneLine(shot.Session.Model, 100), visible.OneLine(where, 200))
	if p := shot.Session.Egress; p != nil {
		opening += ", which may reach " + visible.OneLine(strings.Join(p.Allowed(), ", "), 200)
	}
	p.opening = opening
}

// Phase notes the phase for the status line.
func (p *progress) Phase(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase, p.doing, p.since = name, "", time.Now()
	if name == "turn" {
		p.printLocked(p.opening)
	}
	p.draw()
}

// Event keeps the response, whose text is the answer.
func (p *progress) Event(ev responses.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ev.Response != nil {
		p.final = ev.Response
	}
	if m, ok := ev.Item.(*responses.Message); ok && ev.Type == responses.EventItemDone &&
		m.Phase == responses.PhaseCommentary {
		p.printLocked("  " + visible.OneLine(m.Text(), 500))
	}
}

// Fact shows rounds and tool calls.
func (p *progress) Fact(ev turns.RuntimeEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ev.Type {
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
			what := describeCall(f)
			if len(p.calls) < maxCalls {
				p.calls[ev.ToolCallID] = what
			}
			p.doing, p.since = what, time.Now()
		}
	case turns.ToolResult:
		var f turns.Result
		if json.Unmarshal(ev.Payload, &f) == nil {
			note := ""
			if f.ExitCode != nil && *f.ExitCode != 0 {
				note = fmt.Sprintf("  exit %d", *f.ExitCode)
			}
			if f.ExitCode == nil {
				note = "  " + visible.OneLine(f.Summary, 120)
			}
			p.finishCall(ev.ToolCallID, f.DurationMS, note)
		}
	case turns.ToolFailed:
		var f turns.ToolFailure
		if json.Unmarshal(ev.Payload, &f) == nil {
			p.finishCall(ev.ToolCallID, f.DurationMS, "  failed: "+visible.OneLine(f.Message, 160))
		}
	}
	p.draw()
}

// showRetry says once why a model is asked again. That it failed for good is for the end of the run to say.
func (p *progress) showRetry(f turns.AttemptFailure) {
	pause := (time.Duration(f.BackoffMS) * time.Millisecond).Round(100 * time.Millisecond)
	next := "asking the next model"
	if !f.AdvancedToFallback {
		if pause == 0 || f.ProviderAttempt == nil {
			return
		}
		next = fmt.Sprintf("retrying in %s (%d/%d)", pause, f.ProviderAttempt.Attempt, f.ProviderAttempt.MaxAttempts-1)
	}
	p.doing, p.since = next, time.Now()
	if why := visible.OneLine(f.Message, 200); why != p.retried || f.AdvancedToFallback {
		p.retried = why
		p.printLocked("  ! " + why + "; " + next)
	}
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

// describeCall says in a few words what a call does.
func describeCall(f turns.Begun) string {
	var args struct {
		Cmd string `json:"cmd"`
	}
	if json.Unmarshal([]byte(f.Arguments), &args) == nil && args.Cmd != "" {
		return "$ " + visible.OneLine(args.Cmd, 160)
	}
	if f.ToolName == "ApplyPatch" {
		return "edit"
	}
	return visible.OneLine(f.ToolName, 60)
}

func (p *progress) finishCall(id string, ms int64, note string) {
	what := p.calls[id]
	delete(p.calls, id)
	took := (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond)
	p.printLocked(fmt.Sprintf("  %s  (%.1fs)%s", what, took.Seconds(), note))
	p.doing, p.since = "", time.Now()
}

// answer is the text that the turn ended with.
func (p *progress) answer() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.final == nil {
		return ""
	}
	return p.final.OutputText()
}

// summary ends the view with what a person does next.
func (p *progress) summary(m *state.Manifest, dir string) {
	if p.quiet {
		return
	}
	files := changes(m)
	took := time.Duration(m.Timings.TotalMS) * time.Millisecond
	p.println(fmt.Sprintf("%s in %.1fs: %s", m.Status, took.Seconds(), count(len(files), "file")+" changed"))
	for i, f := range files {
		if i == 20 {
			p.println(fmt.Sprintf("  … and %d more", len(files)-i))
			break
		}
		size := fmt.Sprintf("+%d −%d", f.Added, f.Deleted)
		if f.Binary {
			size = "binary"
		}
		p.println(fmt.Sprintf("  %-8s %s  %s", f.Status, visible.OneLine(f.Path, 300), size))
	}
	ws := workspaceOf(m)
	info, diff := ws.Source, ws.Changes
	if diff != nil {
		for _, line := range oneshot.ExecutedFiles(diff.Warnings) {
			p.println(line)
		}
	}
	for i, w := range m.Warnings {
		if i == 5 {
			p.println(fmt.Sprintf("  … and %d more warnings, see %s", len(m.Warnings)-i, state.ManifestFile))
			break
		}
		p.println("  warning: " + visible.OneLine(w, 300))
	}
	if spent := oneshot.Spent(m); spent != "" {
		p.println("budget   " + spent)
	}
	p.println("results  " + dir)
	if len(files) > 0 {
		p.println("diff     holon diff " + m.RunID)
		p.println("apply    holon apply " + m.RunID)
		if info.Kind == workspace.KindGit {
			p.println("branch   holon checkout " + m.RunID)
		}
	}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
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
	fmt.Fprintln(p.streams.Err, p.streams.defuse(s))
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
	text := fmt.Sprintf("%s  %ds", doing, int(time.Since(p.since).Seconds()))
	if width := p.streams.Width() - 1; len([]rune(text)) > width {
		text = string([]rune(text)[:width-1]) + "…"
	}
	fmt.Fprintf(p.streams.Err, "\r\x1b[K\x1b[2m%s\x1b[0m", text)
	p.drawn = true
}

func (p *progress) erase() {
	if p.drawn {
		fmt.Fprint(p.streams.Err, "\r\x1b[K")
		p.drawn = false
	}
}

// tick redraws the status line, so that its clock goes on.
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
