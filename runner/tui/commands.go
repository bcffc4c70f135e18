package tui

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"holon/internal/visible"
	"holon/responses"
	"holon/runner/present"
	"holon/runner/review"
)

// command is what a line that begins with / does.
type command struct {
	name, args, help string
	run              func(m *model, arg string) tea.Cmd
}

// commands are all commands, in the order of the help.
func commands() []command {
	return []command{
		{"agents", "", "agents and sessions; Enter talks to one", opens(pageAgents)},
		{"sessions", "", "the same", opens(pageAgents)},
		{"work", "[pick|complete ITEM]", "work items", with(pageWork, "pick", "complete")},
		{"tasks", "[stop TASK]", "tasks; Enter shows the output", with(pageTasks, "stop")},
		{"children", "", "children that have not ended", opens(pageChildren)},
		{"workspace", "[attach PATH|use W|isolated W|exit|detach W|checkout [W]]", "where the agent works",
			with(pageWorkspace, "attach", "use", "isolated", "exit", "detach", "checkout")},
		{"diff", "", "what was changed; a text and Enter comments on the line", (*model).review},
		{"apply", "", "bring the change into your files", (*model).apply},
		{"review", "", "send the comments as the next message", (*model).sendComments},
		{"rewind", "[N]", "go back N turns, with the files; without N choose", (*model).rewind},
		{"transcript", "", "what was said and called", opens(pageTranscript)},
		{"events", "[NUMBER]", "raw events", opens(pageEvents)},
		{"prompt", "[TEXT]", "what the model would be asked", opens(pagePrompt)},
		{"model", "[PROVIDER/NAME|default]", "the model of the next turns", (*model).chooseModel},
		{"display", "info|verbose|debug", "how much is shown; also 3, 4, 5", (*model).display},
		{"interrupt", "", "end the turn that runs, as Esc does", func(m *model, _ string) tea.Cmd { return m.interrupt() }},
		{"start", "", "let a stopped agent go on", does("agent", "start")},
		{"stop", "", "stop the agent after its turn", does("agent", "stop")},
		{"renew", "", "let the agent's conversation begin anew", does("agent", "renew")},
		{"close", "", "end the session", does("session", "close")},
		{"help", "", "this", func(m *model, _ string) tea.Cmd { m.push(m.help()); return nil }},
		{"quit", "", "leave; turns go on", func(m *model, _ string) tea.Cmd { return m.quit() }},
	}
}

// command does the command of a line, and reports whether it is one: /etc/hosts is none.
func (m *model) command(line string) (tea.Cmd, bool) {
	name, arg, _ := strings.Cut(line[1:], " ")
	for _, c := range commands() {
		if c.name == name {
			return c.run(m, strings.TrimSpace(arg)), true
		}
	}
	if strings.Contains(name, "/") {
		return nil, false
	}
	m.notice, m.failed = "there is no command /"+name+"; /help lists them", true
	m.setText(line)
	return nil, true
}

// completions are the commands that a line may become.
func (m *model) completions() (names []string) {
	line := m.composer.Value()
	if !strings.HasPrefix(line, "/") || strings.ContainsAny(line, " \n") {
		return nil
	}
	for _, c := range commands() {
		if strings.HasPrefix(c.name, line[1:]) {
			names = append(names, "/"+c.name)
		}
	}
	return names
}

// complete writes the first command that the line may become.
func (m *model) complete() tea.Cmd {
	if names := m.completions(); len(names) > 0 {
		m.setText(names[0] + " ")
	}
	return nil
}

// opens makes a command that opens a page, of the thing that its argument names.
func opens(kind string) func(*model, string) tea.Cmd {
	return func(m *model, arg string) tea.Cmd { return m.openPage(kind, arg) }
}

// with makes a command that opens a page, or does one of the verbs to a thing of it.
func with(kind string, verbs ...string) func(*model, string) tea.Cmd {
	return func(m *model, arg string) tea.Cmd {
		verb, id, _ := strings.Cut(arg, " ")
		if !slices.Contains(verbs, verb) {
			return m.openPage(kind, arg)
		}
		return does(kind, verb)(m, strings.TrimSpace(id))
	}
}

// does makes a command that does something.
func does(kind, verb string) func(*model, string) tea.Cmd {
	return func(m *model, arg string) tea.Cmd {
		return m.act(func(ctx context.Context, b backend) (string, error) { return b.act(ctx, kind, verb, arg) })
	}
}

func (m *model) chooseModel(arg string) tea.Cmd {
	if arg == "" {
		return m.openPage(pageModel, "")
	}
	return does("model", "set")(m, arg)
}

func (m *model) display(arg string) tea.Cmd {
	mode, err := present.ParseMode(arg)
	if err != nil {
		m.say("", err)
		return nil
	}
	m.mode, m.scrolled = mode, 0
	m.rows.redraw()
	m.say("display: "+mode.String(), nil)
	return nil
}

// review opens what was changed.
func (m *model) review(string) tea.Cmd {
	m.push(&overlay{kind: pageDiff, title: "changes", loading: true})
	return m.readDiff()
}

func (m *model) readDiff() tea.Cmd {
	return m.call(func(ctx context.Context, b backend) tea.Msg {
		changes, err := b.diff(ctx)
		return diffMsg{changes, err}
	})
}

// apply reads what was changed, so that what programs execute unasked is shown before it is written.
func (m *model) apply(string) tea.Cmd {
	m.push(&overlay{kind: pageApply, title: "apply", loading: true})
	return m.readDiff()
}

func (m *model) applyNow(read []change, allowExecuted bool) tea.Cmd {
	return m.act(func(ctx context.Context, b backend) (string, error) { return b.apply(ctx, read, allowExecuted) })
}

// sendComments sends the comments on a diff as the next message.
func (m *model) sendComments(string) tea.Cmd {
	if len(m.comments) == 0 {
		return m.review("")
	}
	p := prompt{Text: review.Message(m.comments)}
	m.comments, m.overlays, m.notice = nil, nil, ""
	return m.send(p)
}

// rewind goes back to an earlier turn.
func (m *model) rewind(arg string) tea.Cmd {
	if arg == "" {
		return m.openPage(pageRewind, "")
	}
	n, err := strconv.Atoi(arg)
	if err != nil || n < 1 {
		m.notice, m.failed = "/rewind takes how many turns to go back, or nothing", true
		return nil
	}
	if m.running() {
		return nil
	}
	ago := arg + " turns ago."
	if n == 1 {
		ago = "before the last turn."
	}
	m.ask("go back?", "The files and the conversation become what they were "+ago+"\n\n"+rewindKeeps,
		func() tea.Cmd { return m.rewindTo("back", arg) })
	return nil
}

const rewindKeeps = "What came later stays in the record."

// running says that a turn has to end first, where one runs.
func (m *model) running() bool {
	if m.busy() {
		m.notice, m.failed = "a turn runs; interrupt it first, with Esc", true
	}
	return m.busy()
}

func (m *model) rewindTo(verb, id string) tea.Cmd {
	if m.running() {
		return nil
	}
	target := m.target
	return m.call(func(ctx context.Context, b backend) tea.Msg {
		text, err := b.act(ctx, pageRewind, verb, id)
		done := doneMsg{text: text, err: err}
		if err == nil {
			done.reopen = target
		}
		return done
	})
}

// help lists the keys and the commands.
func (m *model) help() *overlay {
	var b strings.Builder
	b.WriteString("Enter sends; while a turn runs it reaches an agent at once, and a session after it.\n" +
		"Alt+Enter begins a line. Up and Down recall messages. Tab completes a command.\n" +
		"A pasted path of an image or a file is sent with the message; Backspace takes it out.\n" +
		"Esc closes what is open, then interrupts. PgUp, PgDn, Ctrl+Up and Ctrl+Down scroll.\n" +
		"Ctrl+C clears, then leaves. Leaving stops nothing.\n\n")
	for _, c := range commands() {
		b.WriteString("/" + strings.TrimSpace(c.name+" "+c.args) + "\n    " + c.help + "\n")
	}
	o := &overlay{kind: "help", title: "help", text: b.String(), raw: true}
	o.layout(m)
	return o
}

// explain is an error for a person, with its remedy. That of the API names fields that are not here.
func explain(err error) string {
	if e, ok := errors.AsType[*responses.Error](err); ok {
		switch e.Code {
		case "session_closed":
			return visible.WithRemedy(e.Message, "/agents lists others")
		case responses.CodeInterrupted:
			return visible.WithRemedy(e.Message, "the next message goes on from there")
		}
	}
	return cmp.Or(remedied(err), err.Error())
}
