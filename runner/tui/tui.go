// Package tui is the operator's seat at a terminal: one conversation, with an agent of a daemon or with a session, a
// composer that is always ready, and overlays that show what there is.
//
//	backend ─ follow ─▶ feed ─ events ─▶ Model.Update ─▶ View
//	   ▲                                     │
//	   └──────────── commands ◀──────────────┘
//
// The invariants: Update and View are functions of the model and the message, without I/O, which commands do; the
// program is a client of the control plane, so that its end stops nothing; no text of others reaches the terminal but
// through package visible. Rows come in the order of the record; statuses may be older than the newest row by one read.
package tui

import (
	"context"
	"errors"
	"io"

	tea "charm.land/bubbletea/v2"

	"holon/runner/control/client"
	"holon/runner/present"
)

// Options say what is shown, and where.
type Options struct {
	Client  *client.Client // of the daemon
	Target  Target
	Display present.Mode
	Inline  bool // rows stay in the scrollback of the terminal; else the alternate screen is used
	NoColor bool
	Hide    func(string) string // takes the secrets of this process out of a text

	In      io.Reader
	Out     io.Writer
	Environ []string // of the terminal: TERM, COLORTERM, NO_COLOR
}

// Run shows a conversation until the person leaves, or ctx ends. Turns go on.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	feed := newFeed(ctx)
	defer feed.close()
	open := func(t Target) backend {
		if t.Agent != "" {
			return &agent{client: o.Client, id: t.Agent}
		}
		return newSession(o.Client, t)
	}
	m := newModel(open, o.Target, feed, func(do func(context.Context) tea.Msg) tea.Cmd {
		return func() tea.Msg { return do(ctx) }
	})
	m.mode, m.inline, m.color, m.secrets = o.Display, o.Inline, !o.NoColor, o.Hide
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out),
		tea.WithEnvironment(o.Environ), tea.WithoutSignalHandler())
	_, err := program.Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
