// Package deliver brings notifications to the operator outside of this host: to webhooks, to a command, to the desktop.
// It keeps the secrets of these webhooks, and of those that come in by triggers.
//
//	ledger: outbox ─▶ Run: due ─▶ Submit (recorded) ─▶ send ─▶ Submitted (recorded)
//
// The invariant: an attempt is recorded before it is made, and its end after it, so that a delivery whose end is not
// recorded is made again, by the next holon too, under the same id. A receiver that honours the id accepts it once.
// One binding cannot delay another. Deliveries to one binding are made one after another, in no promised order.
package deliver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"holon/internal/duration"
	"holon/internal/redact"
	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner/agent/scheduler"
	"holon/runner/gateway"
	"holon/state/ledger"
)

// Intervals of the driver.
const (
	longest    = 30 * time.Second // the clock of a pause stands still while the machine is suspended
	storeRetry = time.Second
	recordTime = 15 * time.Second
)

// defaultTimeout is how long one attempt may take.
const defaultTimeout = 10 * time.Second

// steps are those of the scheduler.
type steps interface {
	Bind(ctx context.Context, b ledger.OperatorBinding) (ledger.OperatorBinding, error)
	RevokeBinding(ctx context.Context, agentID, id string) (ledger.OperatorBinding, error)
	CreateTrigger(ctx context.Context, n scheduler.NewTrigger) (ledger.Trigger, string, error)
	Submit(ctx context.Context, deliveryID string) (sub scheduler.Submission, ok bool, err error)
	Submitted(ctx context.Context, deliveryID, transportID, failure string) error
}

// secretStore keeps secrets by name: credentials.Store. Get of a name that it does not have is fs.ErrNotExist.
type secretStore interface {
	Has(name string) (bool, error)
	Names() ([]string, error)
	Get(name string) (gateway.Secret, error)
	Set(name string, key gateway.Secret, now time.Time) error
	Remove(name string) error
}

// Options of a Deliverer. Store, Steps, Secrets and Log are needed.
type Options struct {
	Store   ledger.Store
	Steps   steps
	Leases  ledger.Leases // whose deliveries this process makes; nil: all
	Secrets secretStore
	Known   *redact.Set   // gets every secret of a binding; nothing that is sent or recorded shows what it has
	Command []string      // of the transport command; empty: there is none
	Bus     string        // address of the session bus of the desktop; "": there is none
	Environ []string      // of the command
	Timeout time.Duration // of an attempt; 0: 10 s
	Now     func() time.Time
	Log     *slog.Logger
}

// Deliverer makes deliveries. All methods are safe for concurrent use.
type Deliverer struct {
	Options
	public, private *http.Client

	binding sync.Mutex // held while bindings and their secrets change

	idle chan struct{} // receives when a worker has ended
	mu   sync.Mutex
	busy map[string]bool // bindings that have a worker
}

// New returns a Deliverer. It starts nothing; Run does.
func New(o Options) *Deliverer {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Deliverer{Options: o, public: newClient(false), private: newClient(true),
		idle: make(chan struct{}, 1), busy: make(map[string]bool)}
}

// Run makes the deliveries that are due until ctx ends. One that is under way then is given up, and made again by the
// next Run.
func (d *Deliverer) Run(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	for ctx.Err() == nil {
		changed := d.Store.Changed("")
		wake, err := d.round(ctx, &workers)
		if err != nil && ctx.Err() == nil {
			d.Log.Error("the outbox cannot be read; trying again", "err", err)
			wake = storeRetry
		}
		clock := time.NewTimer(wake)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-d.idle:
		case <-clock.C:
		}
		clock.Stop()
	}
}

// round starts a worker for each binding that has a delivery due and no worker, and returns how long there is nothing
// to do but for a commit or the end of a worker.
func (d *Deliverer) round(ctx context.Context, workers *sync.WaitGroup) (wake time.Duration, err error) {
	now, wake := d.Now(), longest
	var due []ledger.Delivery
	err = d.Store.View(ctx, func(v ledger.View) (err error) {
		if due, err = v.DueDeliveries(now); err != nil {
			return err
		}
		next, ok, err := v.NextDelivery(now)
		if ok {
			wake = min(wake, max(next.Sub(now), time.Millisecond))
		}
		return err
	})
	for _, one := range due {
		if d.Leases != nil && d.Leases.Check(ctx, one.AgentID) != nil {
			continue // another process makes it
		}
		if d.take(one.BindingID) {
			workers.Go(func() {
				defer d.release(one.BindingID)
				d.attempt(ctx, one.ID)
			})
		}
	}
	return wake, err
}

func (d *Deliverer) take(bindingID string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[bindingID] {
		return false
	}
	d.busy[bindingID] = true
	return true
}

func (d *Deliverer) release(bindingID string) {
	d.mu.Lock()
	delete(d.busy, bindingID)
	d.mu.Unlock()
	select {
	case d.idle <- struct{}{}:
	default:
	}
}

// attempt makes one attempt to deliver, and records it.
func (d *Deliverer) attempt(ctx context.Context, id string) {
	sub, ok, err := d.Steps.Submit(ctx, id)
	var receipt string
	if err == nil && ok {
		var failed error
		receipt, failed = d.send(ctx, sub)
		if failed != nil && ctx.Err() != nil {
			return // it may have come; the next Run makes it again
		}
		failure := ""
		if failed != nil {
			failure = visible.OneLine(d.Known.Text(failed.Error()), 300)
		}
		// what came is recorded even if the process ends
		recording, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
		defer cancel()
		err = d.Steps.Submitted(recording, id, d.Known.Text(receipt), failure)
		d.Log.Info("notification", "delivery", id, "binding", sub.Binding.ID, "attempt", sub.Delivery.Attempts, "err", failed)
	}
	if err != nil && ctx.Err() == nil {
		d.Log.Error("a delivery cannot be recorded; trying again", "delivery", id, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(storeRetry):
		}
	}
}

// send hands a notification to its transport. The receipt is the transport's own id of it, if it gives one.
func (d *Deliverer) send(ctx context.Context, sub scheduler.Submission) (receipt string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.Timeout, errSlow)
	defer cancel()
	body, err := d.body(sub)
	if err != nil {
		return "", err
	}
	switch sub.Binding.Transport {
	case ledger.TransportWebhook:
		receipt, err = d.post(ctx, sub, body)
	case ledger.TransportCommand:
		err = d.runCommand(ctx, body)
	case ledger.TransportDesktop:
		err = d.showOnDesktop(ctx, sub)
	default:
		err = fmt.Errorf("this holon does not have the transport %.40q", sub.Binding.Transport)
	}
	if err != nil && errors.Is(context.Cause(ctx), errSlow) {
		err = fmt.Errorf("%w %s", errSlow, duration.Text(d.Timeout))
	}
	return receipt, err
}

var errSlow = errors.New("it did not answer within")

// Message is what a transport gets, as JSON: the same for each attempt of a delivery.
type Message struct {
	Type      string      `json:"type"`      // operator.notification
	Timestamp turns.Time  `json:"timestamp"` // of the notification
	Text      string      `json:"text"`      // who notifies, and the whole notification
	Data      MessageData `json:"data"`
}

// MessageData is what a notification is, and the delivery that brings it.
type MessageData struct {
	DeliveryIntentID string              `json:"delivery_intent_id"`
	OutputEventID    string              `json:"output_event_id"`
	TriggerKind      string              `json:"trigger_kind"`
	BindingID        string              `json:"binding_id"`
	RouteID          string              `json:"route_id"`
	ActorID          string              `json:"operator_actor_id"`
	Provider         string              `json:"provider,omitempty"`
	ProviderIdentity string              `json:"provider_identity_ref,omitempty"`
	Notification     ledger.Notification `json:"notification"`
}

func (d *Deliverer) body(sub scheduler.Submission) ([]byte, error) {
	n, one, b := sub.Notification, sub.Delivery, sub.Binding
	data, err := json.Marshal(Message{Type: "operator.notification", Timestamp: turns.At(n.CreatedAt),
		Text: sender(n) + ": " + n.Message,
		Data: MessageData{DeliveryIntentID: one.ID, OutputEventID: one.EventID, TriggerKind: one.TriggerKind, BindingID: b.ID,
			RouteID: one.RouteID, ActorID: b.ActorID, Provider: b.Provider, ProviderIdentity: b.ProviderIdentity,
			Notification: n}})
	if err != nil {
		return nil, fmt.Errorf("encode the notification: %w", err)
	}
	return d.Known.JSON(data, turns.Recorded), nil
}

// sender names the agent that notifies, and the child that asked it to.
func sender(n ledger.Notification) string {
	if n.RequestedBy != n.AgentID {
		return n.AgentID + ", for its child " + n.RequestedBy
	}
	return n.AgentID
}
