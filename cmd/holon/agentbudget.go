package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/runner/settings"
	"holon/state"
)

func newAgentBudgetCommand(streams Streams) *cobra.Command {
	var b wire.Budget
	cmd := agentCommand(streams, "budget [AGENT]", "Show or bound what an agent and its children take together",
		func(ctx context.Context, r *remote) error {
			if b == (wire.Budget{}) {
				shown, err := r.Budget(ctx, r.named())
				return r.showBudget(shown, err)
			}
			set, err := r.SetBudget(ctx, r.named(), b)
			return r.showBudget(set, err)
		})
	cmd.Long = "Show or bound what an agent and its children take together. When the budget is spent, they\n" +
		"pause, and you are notified; a larger one lets them go on. A bound of 0 is that of the\n" +
		"settings budgets.agent, or none."
	f := cmd.Flags()
	f.Func("tokens", "`number` of tokens that their models may read and write", func(text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		b.MaxTokens = &n
		return wholeNumber(err)
	})
	f.Func("cost", "`amount` that their models may cost", func(text string) error {
		var m settings.Money
		err := m.UnmarshalText([]byte(text))
		b.MaxCost = new(state.Amount(m))
		return err
	})
	f.Func("containers", "`number` of containers that they may have at a time", func(text string) error {
		n, err := strconv.Atoi(text)
		b.MaxContainers = &n
		return wholeNumber(err)
	})
	return cmd
}

// wholeNumber is the error of a text that is to be a number, in words.
func wholeNumber(err error) error {
	switch {
	case errors.Is(err, strconv.ErrRange):
		return errors.New("the number is too large")
	case err != nil:
		return errors.New("it is not a whole number")
	}
	return nil
}

func (r *remote) showBudget(b view.TreeBudget, err error) error {
	containers, paused := "", ""
	if b.Spent != "" {
		paused = "until the bound of " + b.Spent + " is above what is taken"
		if setting := state.HostBudget(b.Spent); setting != "" {
			paused = "until " + setting + " is above what is taken"
		}
	}
	if b.MaxContainers > 0 {
		containers = strconv.Itoa(b.MaxContainers) + " at a time"
	}
	pairs := append([]string{"agent", b.AgentID, "children", strconv.Itoa(b.Children)}, budgetOfTree(b)...)
	return r.showFacts(b, err, append(pairs, "containers", containers, "spent", b.Spent, "paused", paused)...)
}

// budgetOfTree says what an agent and its children took, and everything on the host, and what they may take.
func budgetOfTree(b view.TreeBudget) []string {
	mark := ""
	if b.Estimated {
		mark = state.Approximately
	}
	pairs := []string{"tokens", mark + of(b.Tokens, b.MaxTokens), "cost", ofMoney(b.Money().String(), b.MaxCost)}
	h := b.Host
	if h == nil {
		return pairs
	}
	if h.MaxDayTokens > 0 {
		pairs = append(pairs, "host today", of(h.DayTokens, h.MaxDayTokens)+" tokens")
	}
	if h.MaxDayCost > 0 {
		pairs = append(pairs, "host today", "cost "+ofMoney(h.DayCost.String(), h.MaxDayCost))
	}
	if h.MaxTokens > 0 {
		pairs = append(pairs, "host in all", of(h.Tokens, h.MaxTokens)+" tokens")
	}
	if h.MaxCost > 0 {
		pairs = append(pairs, "host in all", "cost "+ofMoney(h.Cost.String(), h.MaxCost))
	}
	return pairs
}

func of(taken, most int64) string {
	return ofBound(strconv.FormatInt(taken, 10), strconv.FormatInt(most, 10))
}

func ofMoney(taken string, most state.Amount) string { return ofBound(taken, most.String()) }

func ofBound(taken, most string) string {
	if most == "0" {
		return taken
	}
	return taken + " of " + most
}
