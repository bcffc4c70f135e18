package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/control/wire"
	"holon/state"
)

func newSessionCommand(streams Streams) *cobra.Command {
	return group("session", "See and take what other programs do in their sessions",
		`A session is a conversation of a program that holon serve answers below /v1: a container
with a private copy of a directory. Your own files change by apply and checkout only.

SESSION is an id, or the name that the program gave it; session list shows them.`,
		newSessionList(streams), sessionCommand(streams, "show SESSION", "Show a session", runSessionShow),
		newSessionDiff(streams), newSessionApply(streams), newSessionCheckout(streams), newSessionTurns(streams),
		newSessionRewind(streams), newSessionClose(streams), newSessionStart(streams))
}

// sessionCommand makes a command that asks the daemon about sessions.
func sessionCommand(streams Streams, use, short string, do func(context.Context, *remote) error) *cobra.Command {
	r := &remote{base: base{streams: streams}}
	return r.command(use, short, func(ctx context.Context) error {
		err := r.ask(ctx, do)
		if e, ok := errors.AsType[*state.Error](err); ok && sessionFlags[e.Param] != "" {
			named := *e
			named.Param = sessionFlags[e.Param]
			return &named
		}
		return err
	})
}

// sessionFlags are what names the fields of requests for sessions.
var sessionFlags = map[string]string{"session": "SESSION", "session_id": "SESSION", "workspace": "--workspace",
	"holon.workspace": "--workspace", "holon.session_id": "--name", "holon.image": "--image", "image": "--image",
	"path": "--path", "branch": "--branch", "model": "--model", "name": "--name",
	"response_id": "RESPONSE"}

func newSessionList(streams Streams) *cobra.Command {
	all := false
	cmd := sessionCommand(streams, "list", "List the sessions of all programs", func(ctx context.Context,
		r *remote) error {
		found, err := r.Sessions(ctx)
		var list []wire.Session
		for _, s := range found.Data {
			if all || s.Status == "open" {
				list = append(list, s)
			}
		}
		return showList(&r.base, list, err,
			[]string{"SESSION", "NAME", "OWNER", "STATE", "USED", "MODEL*", "WORKSPACE*"}, func(s wire.Session) []string {
				return []string{s.ID, s.Name, s.Owner, sessionState(s), r.streams.when(s.LastUsedAt), s.Model,
					r.streams.oneLine(s.Workspace, 1000)}
			})
	})
	cmd.Flags().BoolVarP(&all, "all", "a", false, "those that are closed too")
	return tableCommand(cmd, streams)
}

// sessionState is what an open session does.
func sessionState(s wire.Session) string {
	if s.Status == "open" {
		return cmp.Or(s.Activity, s.Status)
	}
	return s.Status
}

func runSessionShow(ctx context.Context, r *remote) error {
	s, err := r.Session(ctx, r.args[0])
	return r.showFacts(s, err, "session", s.ID, "name", s.Name, "owner", s.Owner, "state", sessionState(s),
		"model", s.Model, "workspace", r.streams.oneLine(s.Workspace, 5000), "opened", r.streams.when(s.CreatedAt),
		"used", r.streams.when(s.LastUsedAt), "closed", r.streams.when(s.ClosedAt),
		"files lost", r.streams.when(s.TreeLostAt),
		"turns", strconv.Itoa(s.Usage.Turns), "tokens", strconv.FormatInt(s.Usage.Tokens, 10), "cost", s.Usage.Cost.String(),
		"current", s.Current, "responses", strings.Join(s.ResponseIDs[max(0, len(s.ResponseIDs)-20):], " "))
}

func newSessionDiff(streams Streams) *cobra.Command {
	o := &diffOptions{}
	cmd := sessionCommand(streams, "diff SESSION", "Show what was changed in a session",
		func(ctx context.Context, r *remote) error {
			d, err := r.DiffSession(ctx, r.args[0], 0)
			return r.show(d, err, func() error {
				if len(d.Changes.Files) == 0 {
					r.streams.say("unchanged: " + d.SessionID)
				} else if err := r.printDiff(d.Changes, o); err != nil {
					return err
				}
				if len(d.Changes.Branches) > 0 {
					r.streams.say("commits elsewhere in " + d.SessionID + ": " + branchNames(d.Changes.Branches) + ", kept as " +
						visible.OneLine(d.Changes.Bundle, 5000))
				}
				showExecuted(r.streams, d.Changes.Warnings)
				r.sayWarnings(d.SessionID, d.Changes.Warnings)
				return nil
			})
		})
	cmd.Long = "Show what was changed in the files of a session since it began, or since you applied it last."
	o.define(cmd)
	return cmd
}

func newSessionApply(streams Streams) *cobra.Command {
	a := wire.ApplySession{}
	cmd := sessionCommand(streams, "apply SESSION", "Bring what was changed in a session into your files",
		func(ctx context.Context, r *remote) error {
			done, err := r.ApplySession(ctx, r.args[0], a)
			return r.show(done, err, func() error {
				r.sayWarnings(done.SessionID, done.Warnings)
				return r.showTaken(done)
			})
		})
	cmd.Long = `Bring what was changed in a session into the directory that it is a copy of, merging
three ways with what you changed since: all of it, or nothing where something does not
merge. Nothing is committed. The session goes on from there.`
	cmd.Flags().BoolVar(&a.AllowExecuted, "allow-executed", false,
		"also files that programs execute without being asked to")
	return cmd
}

// showTaken prints the files that were changed.
func (r *remote) showTaken(done wire.SessionApplied) error {
	t := newTable(r.streams)
	t.files("written", done.Path, done.Written)
	t.files("deleted", done.Path, done.Deleted)
	if len(done.Written)+len(done.Deleted) == 0 {
		r.streams.say("nothing to do in " + visible.OneLine(cmp.Or(done.Path, done.SessionID), 1000))
	}
	return t.end()
}

func newSessionCheckout(streams Streams) *cobra.Command {
	o := wire.CheckoutSession{}
	cmd := sessionCommand(streams, "checkout SESSION", "Make a branch of what was changed in a session",
		func(ctx context.Context, r *remote) (err error) {
			if o.Path != "" {
				if o.Path, err = absolute("--path", o.Path); err != nil {
					return err
				}
			}
			done, err := r.CheckoutSession(ctx, r.args[0], o)
			return r.show(done, err, func() error {
				r.streams.say(fmt.Sprintf("branch   %s: %d commits on %.12s", visible.OneLine(done.Branch, 300), done.Commits,
					cmp.Or(done.Base, "a new root")))
				r.sayWarnings(done.SessionID, done.Warnings)
				_, err := fmt.Fprintln(r.streams.Out, visible.OneLine(done.Worktree, 5000))
				return err
			})
		})
	cmd.Long = `Make a branch of what was changed in a session, with a working tree, whose path is
printed. Your own files and branches stay as they are, and so does the session.`
	f := cmd.Flags()
	f.StringVar(&o.Branch, "branch", "", "`name` of the new branch (default one that is made of the session)")
	f.StringVar(&o.Path, "path", "", "`directory` for the working tree (default below HOLON_HOME/worktrees)")
	f.BoolVar(&o.AllowExecuted, "allow-executed", false, "also files that programs execute without being asked to")
	return cmd
}

func newSessionTurns(streams Streams) *cobra.Command {
	cmd := sessionCommand(streams, "turns SESSION", "List the turns of a session, in order",
		func(ctx context.Context, r *remote) error {
			found, err := r.SessionTurns(ctx, r.args[0])
			return showList(&r.base, found.Data, err,
				[]string{"RESPONSE", "AFTER", "AT", "STATUS", "FILES", "INPUT*", "ANSWER*"}, func(t wire.SessionTurn) []string {
					files, status := "lost", t.Status
					if t.TreeKept {
						files = "kept"
					}
					if t.Current {
						status += ", current"
					}
					return []string{t.ResponseID, cmp.Or(t.PreviousResponseID, "start"), r.streams.when(t.CreatedAt), status, files,
						r.streams.oneLine(t.InputPreview, 200), r.streams.oneLine(t.TextPreview, 200)}
				})
		})
	return tableCommand(cmd, streams)
}

func newSessionRewind(streams Streams) *cobra.Command {
	to := wire.RewindSession{}
	cmd := sessionCommand(streams, "rewind SESSION [RESPONSE]", "Go back to an earlier turn of a session",
		func(ctx context.Context, r *remote) (err error) {
			if to.ResponseID, err = r.rewindTo(ctx); err != nil {
				return err
			}
			done, err := r.RewindSession(ctx, r.args[0], to)
			if e, ok := errors.AsType[*state.Error](err); ok && e.Code == "tree_not_kept" {
				e.Hint = "give --conversation-only, or another RESPONSE"
			}
			if err == nil {
				r.sayWarnings(done.SessionID, done.Warnings)
			}
			files := "as they were"
			if !done.TreeRestored {
				files = "unchanged"
			}
			return r.showRow(done, err, done.SessionID, cmp.Or(done.ResponseID, rewindStart), files)
		})
	cmd.Long = `Go back to what a session was right after a response: its next turn continues that
response, and its files become what they were then. Without RESPONSE it is the one
before the current one; "start" is the beginning. Nothing is lost: what came later
stays, and the session can go back to it.

Ignored files, and what a diff leaves out, stay as they are.`
	cmd.Flags().BoolVar(&to.ConversationOnly, "conversation-only", false, "leave the files as they are")
	return cmd
}

// rewindStart names the beginning of a session.
const rewindStart = "start"

// rewindTo is the response that the arguments name: by default that before the current one.
func (r *remote) rewindTo(ctx context.Context) (string, error) {
	if len(r.args) > 1 {
		return strings.TrimPrefix(r.args[1], rewindStart), nil // no id of a response begins so
	}
	list, err := r.SessionTurns(ctx, r.args[0])
	for _, t := range list.Data {
		if t.Current {
			return t.PreviousResponseID, nil
		}
	}
	if err == nil {
		err = usage("RESPONSE", "the session is at its beginning", "name a response: holon session turns lists them")
	}
	return "", err
}

func newSessionClose(streams Streams) *cobra.Command {
	cmd := sessionCommand(streams, "close SESSION", "End a session", func(ctx context.Context, r *remote) error {
		done, err := r.CloseSession(ctx, r.args[0])
		return r.showRow(done, err, done.ID, done.Status)
	})
	cmd.Long = `End a session: a turn that runs is cancelled, its container goes, and what it changed is
kept. Its responses can be read until they are removed; no turn is begun any more.`
	return cmd
}

func newSessionStart(streams Streams) *cobra.Command {
	o := wire.StartSession{}
	cmd := sessionCommand(streams, "start", "Open a session, and print where a program finds it",
		func(ctx context.Context, r *remote) (err error) {
			if o.Workspace != "" {
				if o.Workspace, err = filepath.Abs(o.Workspace); err == nil {
					o.Workspace, err = existingDir(o.Workspace)
				}
				if err != nil {
					return usage("--workspace", err.Error(), "name an existing directory")
				}
			}
			o.Model = scenarioFromHere(o.Model)
			made, err := r.StartSession(ctx, o)
			if err != nil {
				return err
			}
			at := startedSession{Session: made}
			if at.Socket, err = r.socketPath("", r.home); err != nil {
				return err
			}
			hand, err := r.Handshake(ctx)
			if hand.Runtime.AdvertiseURL != "" {
				at.URL = hand.Runtime.AdvertiseURL + "/v1"
			}
			return r.showFacts(at, err, "session", made.ID, "socket", at.Socket, "url", at.URL)
		})
	cmd.Long = `Open a session, and print its id, the daemon's socket and, where it has a port, the URL
for clients of Open Responses. A request with the id as holon.session_id is the
session's next turn.`
	cmd.Example = `  holon session start --workspace . --model openai/gpt-5`
	f := cmd.Flags()
	f.StringVar(&o.Workspace, "workspace", "", "`directory` of which it gets a copy (default none: it begins empty)")
	f.StringVarP(&o.Model, "model", "m", "", "model that it asks, as `provider/name` (default the daemon's)")
	f.StringVar(&o.Image, "image", "", "container `image` (default the daemon's)")
	f.StringVar(&o.Name, "name", "", "`name` of your own, by which requests may call it")
	return cmd
}

// startedSession is a session with where a program finds it.
type startedSession struct {
	wire.Session
	Socket string `json:"socket"`
	URL    string `json:"url,omitempty"`
}

// files adds a row for each file below a directory.
func (t *table) files(what, dir string, names []string) {
	for _, name := range names {
		t.row(what, visible.Name(filepath.Join(dir, name)))
	}
}

// sessionIDs are the ids of all sessions.
func sessionIDs(ctx context.Context, r *remote) (ids []string) {
	found, _ := r.Sessions(ctx) // none completes nothing
	for _, s := range found.Data {
		ids = append(ids, visible.OneLine(s.ID, 100))
	}
	return ids
}
