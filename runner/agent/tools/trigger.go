package tools

import (
	"context"
	"fmt"
	"strings"

	"holon/runner/hosttools"
	"holon/state"
	"holon/state/ledger"
)

const triggerDescription = "Returns the URL of your external trigger: a POST to it wakes you, also while you " +
	"sleep, and may say why in the body. The URL is a secret that works until your operator renews it. Use it only " +
	"to configure a service that is to wake you; do not repeat it in an answer or write it down elsewhere."

// capability is the result of ExternalTriggerGet (runtime specification, "External
// Trigger Descriptor").
type capability struct {
	ID           string `json:"external_trigger_id"`
	URL          string `json:"trigger_url"`
	AgentID      string `json:"target_agent_id"`
	DeliveryMode string `json:"delivery_mode"`
	Status       string `json:"status"`
	Hint         string `json:"hint,omitempty"`
}

// trigger is ExternalTriggerGet.
func (o Options) trigger(ctx context.Context, _ hosttools.Call, _ struct{}) (hosttools.Result, error) {
	info, err := o.Info(ctx)
	if err != nil {
		return hosttools.Result{}, err
	}
	t, token, err := o.Triggers.RevealTrigger(ctx, o.AgentID)
	if state.IsCode(err, ledger.CodeNotFound) {
		return hosttools.Result{}, &hosttools.ToolError{Kind: "no_external_trigger",
			Message: "you have no external trigger whose URL can be shown", Hint: "ask your operator to renew it"}
	}
	if err != nil {
		return hosttools.Result{}, err
	}
	out := capability{ID: t.ID, URL: info.TriggerURL(token), AgentID: t.AgentID, DeliveryMode: t.DeliveryMode,
		Status: t.Status}
	if !info.Reachable() {
		out.Hint = "the runtime has no TCP port: no one reaches this path before your operator opens one"
	}
	result, err := show(strings.TrimSpace(fmt.Sprintf("trigger %s, %s: %s %s", out.ID, out.Status, out.URL, out.Hint)),
		out)
	result.Summary = "trigger " + out.ID + " shown"                  // the record has no URL
	result.Unmasked, result.Directive.Hidden = true, []string{token} // the token is masked wherever else it may stand
	return result, err
}
