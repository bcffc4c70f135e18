package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"holon/responses/turns"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state/ledger"
)

func newNotifyCommand(streams Streams) *cobra.Command {
	return group("notify", "Choose how notifications of agents reach you",
		`What an agent asks of its operator is shown by holon status, and delivered to what you
bind: a webhook here, or a command and the desktop by the settings notify.command and
notify.desktop. Agents without bindings of their own use those of the default agent.`,
		newNotifyBindCommand(streams),
		tableCommand(remoteCommand(streams, "list", "List the bindings of an agent", runNotifyList), streams),
		remoteCommand(streams, "revoke NAME", "End a binding, and forget its secrets",
			func(ctx context.Context, r *remote) error {
				b, err := r.RevokeBinding(ctx, r.Agent, r.args[0])
				return r.showRow(b, err, b.ID, b.Status)
			}),
		remoteCommand(streams, "test NAME", "Send a notification by a binding, and see whether it comes", runNotifyTest),
		remoteCommand(streams, "ack ID", "Take a notification off the status of its agent: you have seen it",
			func(ctx context.Context, r *remote) error {
				n, err := r.Acknowledge(ctx, r.Agent, r.args[0])
				return r.showRow(n, err, n.ID, "resolved")
			}),
		tableCommand(remoteCommand(streams, "log", "List notifications, and what became of them", runNotifyLog), streams))
}

func newNotifyBindCommand(streams Streams) *cobra.Command {
	b, bearer, secret := wire.Bind{}, false, false
	cmd := remoteCommand(streams, "bind NAME", "Have notifications posted to a URL",
		func(ctx context.Context, r *remote) error {
			b.BindingID = r.args[0]
			if bearer || secret {
				given, err := readSecret(ctx, r, r.args[0])
				if err != nil {
					return err
				}
				if b.Auth.SigningSecret = given; bearer {
					b.Auth = wire.BindAuth{Kind: ledger.AuthBearer, BearerToken: given}
				}
			}
			bound, err := r.Bind(ctx, r.Agent, b)
			return r.showFacts(bound, err, "binding", bound.Binding.ID, "agent", bound.Binding.AgentID,
				"url", bound.Binding.CallbackURL, "authentication", bound.Binding.Auth.Kind,
				"signing secret", bound.SigningSecret, "ingress token", bound.IngressToken)
		})
	cmd.Long = `Have notifications of an agent posted to a URL, as JSON with the headers of
standard-webhooks. A signing secret is made and printed once; the URL and the secret are
stored with your keys, and never shown again. The same NAME replaces a binding; what is
left out of its URL and secrets stays as it was.`
	cmd.Example = `  holon notify bind phone --url 'https://ntfy.sh/TOPIC?tpl=1&m={{.text}}'
  holon notify bind chat --url https://relay.example.org/holon --bearer < token`
	f := cmd.Flags()
	f.StringVar(&b.CallbackURL, "url", "", "`URL` that notifications are posted to")
	f.BoolVar(&bearer, "bearer", false, "send a bearer token, read from standard input, and sign nothing")
	f.BoolVar(&secret, "secret", false, "sign with a secret whsec_…, read from standard input")
	f.BoolVar(&b.AllowPrivate, "allow-private-addresses", false,
		"also in private networks and on this machine, and by http")
	f.BoolVar(&b.Ingress, "ingress", false, "take messages of yours from there; the token for that is printed once")
	f.StringVar(&b.ActorID, "actor", "", "`id` by which its messages name you (default operator)")
	f.StringVar(&b.Provider, "provider", "", "`name` of the service behind a relay")
	cmd.MarkFlagsMutuallyExclusive("bearer", "secret")
	return cmd
}

// readSecret reads a secret from standard input, as that of holon credentials set.
func readSecret(ctx context.Context, r *remote, of string) (string, error) {
	var text []byte
	var err error
	if f, ok := r.streams.In.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		text, err = askSecretly(ctx, f, r.streams.Err, "Secret of "+of+" (it is not shown): ")
	} else {
		text, err = readAll(ctx, io.LimitReader(r.streams.In, maxKeyInput))
	}
	return strings.TrimSpace(string(text)), err
}

func runNotifyList(ctx context.Context, r *remote) error {
	found, err := r.Bindings(ctx, r.Agent)
	return showList(&r.base, found, err, []string{"BINDING", "AGENT", "TRANSPORT", "STATUS", "INGRESS", "URL*"},
		func(b ledger.OperatorBinding) []string {
			return []string{b.ID, b.AgentID, b.Transport, b.Status, strconv.FormatBool(b.Ingress), b.CallbackURL}
		})
}

func runNotifyTest(ctx context.Context, r *remote) error {
	n, err := r.TestBinding(ctx, r.Agent, r.args[0])
	if err := r.showRow(n, err, r.args[0], delivered(n.Deliveries)); err != nil {
		return err
	}
	if !slices.ContainsFunc(n.Deliveries, func(d ledger.Delivery) bool { return d.Status == ledger.DeliveryAccepted }) {
		return exitError(1)
	}
	return nil
}

func runNotifyLog(ctx context.Context, r *remote) error {
	found, err := r.Notifications(ctx, r.Agent, 0)
	return showList(&r.base, found.Data, err, []string{"NOTIFICATION", "FROM", "AT", "STATUS", "DELIVERY*", "SUMMARY*"},
		func(n view.Notice) []string {
			status := "open"
			if n.Notification.ResolvedAt != nil {
				status = "resolved"
			}
			return []string{n.Notification.ID, n.Notification.RequestedBy, r.streams.when(turns.At(n.Notification.CreatedAt)),
				status, delivered(n.Deliveries), n.Notification.Summary}
		})
}

// delivered is what became of the deliveries of a notification, "" for none.
func delivered(list []ledger.Delivery) string {
	texts := make([]string, 0, len(list))
	for _, d := range list {
		text := d.BindingID + " " + strings.ReplaceAll(d.Status, "_", " ")
		if d.Failure != "" {
			text += fmt.Sprintf(" after %s: %s", count(d.Attempts, "attempt"), d.Failure)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
