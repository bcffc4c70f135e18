package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"holon/responses/client"
	"holon/runner/acp"
	"holon/runner/daemon"
	"holon/state"
)

func newACPCommand(streams Streams) *cobra.Command {
	b := &background{serveOptions: &serveOptions{base: base{streams: streams}}}
	o, agent := acp.Options{Mode: acp.Ask, Version: buildVersion()}, ""
	cmd := &cobra.Command{
		Use:   "acp",
		Short: "Let an editor work with agents, by the Agent Client Protocol",
		Long: `Speak the Agent Client Protocol on standard input and output, for an editor that
starts this command. Each conversation is a session of the daemon, whose agent works
in a container on a private copy of the editor's directory. The daemon is started with
these options unless one runs; it must allow the directory with --workspace-root.

With --mode ask, each change is shown and applied to the editor's files when it is
allowed there; with apply, after each turn; with private, not at all: see holon session.
The editor can change the mode.

Exit codes: 0 the editor left, 2 usage error, 4 the daemon could not start.`,
		Example: "  holon acp --model openai/gpt-5 --workspace-root ~/src",
		Args:    argumentsOfUse,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := b.begin(args)
			if err == nil {
				err = b.complete()
			}
			if err == nil {
				err = b.find()
			}
			if err == nil {
				err = b.serveEditor(cmd.Context(), o, agent)
			}
			return b.named(&b.host, err)
		},
	}
	b.define(cmd.Flags())
	cmd.Flags().StringVar((*string)(&o.Mode), "mode", string(acp.Ask),
		"when changes are applied to your files: ask, apply or private")
	cmd.Flags().StringVar(&agent, "with-agent", "", "`id` of a long-lived agent to talk to, instead of in sessions")
	cmd.Flags().BoolVar(&o.Thoughts, "thoughts", false,
		"ask models of the Responses API for summaries of what they think, which not all have")
	return cmd
}

// serveEditor answers the editor on the standard streams. agent is "" for sessions.
func (b *background) serveEditor(ctx context.Context, o acp.Options, agent string) error {
	if !slices.Contains(acp.Modes(), o.Mode) {
		return usage("--mode", fmt.Sprintf("%.40q is not a mode", o.Mode), "use ask, apply or private")
	}
	if agent != "" && state.CheckAgentID(agent) != nil {
		return usage("--with-agent", fmt.Sprintf("%.40q is not the id of an agent", agent), "see holon agent list")
	}
	status, err := b.Status(ctx)
	if err == nil && status.State != daemon.Running {
		var started daemon.Started
		if err = b.ready(ctx); err == nil {
			started, err = b.Start(ctx)
		}
		status = started.Status
	}
	if err != nil {
		return err
	}
	if o.Model = cmp.Or(b.Model, status.DefaultModel); o.Model == "" {
		return usage("--model", "there is no model", "name one as provider/name")
	}
	if agent != "" {
		o.Model = acp.AgentPrefix + agent
	}
	o.Client, o.Log = client.Unix(b.Socket), slog.New(slog.NewTextHandler(b.streams.Err, nil))
	defer o.Client.Close()
	return acp.Serve(ctx, b.streams.In, b.streams.Out, o)
}
