package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holon/internal/httpserver"
	"holon/runner/access"
	"holon/runner/control/client"
	"holon/runner/control/wire"
)

func newTriggerCommand(streams Streams) *cobra.Command {
	show := agentCommand(streams, "show [AGENT]", "Show an agent's external trigger with its URL",
		func(ctx context.Context, r *remote) error { return trigger(ctx, r, r.Trigger) })
	show.Long = "Show an agent's external trigger, a URL that wakes it. It is made again if it was revoked.\n" +
		"The URL is a secret."
	return group("trigger", "The URLs by which others wake an agent", "", newTriggerCreateCommand(streams), show,
		triggerCommand(streams, "rotate [AGENT]", "Give a trigger another URL; the old one ends",
			(*client.Client).RotateTrigger),
		triggerCommand(streams, "revoke [AGENT]", "End a trigger, and forget its secret", (*client.Client).RevokeTrigger))
}

func newTriggerCreateCommand(streams Streams) *cobra.Command {
	n, file := wire.NewTrigger{}, ""
	cmd := agentCommand(streams, "create [AGENT]", "Make a trigger that takes only signed webhooks",
		func(ctx context.Context, r *remote) error {
			secret, err := readSecretFile(ctx, r, file)
			if err != nil {
				return err
			}
			n.Secret = secret
			return trigger(ctx, r, func(ctx context.Context, agent string) (wire.Trigger, error) {
				return r.CreateTrigger(ctx, agent, n)
			})
		})
	cmd.Long = `Make another trigger of an agent, which takes only webhooks that are signed with a secret:
those of GitHub, GitLab and Slack, and standard-webhooks. Each is taken once, and the agent
sees the headers that say what it is. The secret is stored with your keys, and never shown
again. An agent may have several; revoke and rotate name one with --id.`
	cmd.Example = `  holon agent trigger create ci --signature github --secret-file gh.secret
  holon agent trigger create ci --signature slack --secret-file - < secret`
	f := cmd.Flags()
	f.StringVar(&n.Signature, "signature", "", "`scheme` of the sender: github, gitlab, slack or standard")
	f.StringVar(&file, "secret-file", "", "`file` with the secret that the sender has, - for standard input")
	return cmd
}

// readSecretFile reads a secret from a file that only its owner may use, or with - from standard input, without white
// space around it.
func readSecretFile(ctx context.Context, r *remote, file string) (string, error) {
	if file == "" {
		return "", usage("--secret-file", "is missing", "give the file with the secret that the sender has, or -")
	}
	if file == "-" {
		return readSecret(ctx, r, "the sender")
	}
	text, err := httpserver.ReadPrivate(file, maxKeyInput, "give a file that you can read, or -")
	return strings.TrimSpace(string(text)), access.Refuse("--secret-file", "the file", err)
}

// triggerCommand makes a command about one of the triggers of an agent.
func triggerCommand(streams Streams, use, short string,
	do func(c *client.Client, ctx context.Context, agent, id string) (wire.Trigger, error)) *cobra.Command {
	id := ""
	cmd := agentCommand(streams, use, short, func(ctx context.Context, r *remote) error {
		return trigger(ctx, r, func(ctx context.Context, agent string) (wire.Trigger, error) {
			return do(r.Client, ctx, agent, id)
		})
	})
	cmd.Flags().StringVar(&id, "id", "", "`id` of the trigger (default the one that takes unsigned requests)")
	return cmd
}

func trigger(ctx context.Context, r *remote, do func(context.Context, string) (wire.Trigger, error)) error {
	t, err := do(ctx, r.named())
	return r.showFacts(t, err, "agent", t.AgentID, "trigger", t.Trigger.ID, "signature", t.Trigger.Signature,
		"status", t.Trigger.Status, "used", strconv.FormatInt(t.Trigger.DeliveryCount, 10), "url", t.TriggerURL,
		"hint", t.Hint)
}
