package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

type Way string

const (
	Prompt   Way = "prompt"
	Enqueue  Way = "enqueue"
	Webhook  Way = "webhook"
	Callback Way = "callback" // with content
	Ring     Way = "ring"     // a callback without content
	Wake     Way = "wake"
	Timer    Way = "timer"    // fires once
	Interval Way = "interval" // fires until it is cancelled
	Add      Way = "add"      // a work item, which comes without a message
)

func Ways() []Way { return []Way{Prompt, Enqueue, Webhook, Callback, Ring, Wake, Timer, Interval, Add} }

// Letter is a message to be sent, and what became of that.
type Letter struct {
	Agent    string
	Way      Way
	Priority ledger.Priority
	Word     Word
	Key      string        // idempotency key; a callback and a wake have none
	After    time.Duration // of timers, until they fire

	Sent    time.Time
	Taken   time.Duration // from the last try to the answer
	Tries   int
	Acked   bool
	Refused state.Code // by the runtime, for good
	ID      string     // of the message, the timer or the work item
	Seq     int64      // of message_admitted, where the answer tells
}

func (l *Letter) text() string { return fmt.Sprintf("%s, please. This is %s.", l.Word, l.Key) }

// Keyed reports whether sending the letter again makes nothing new.
func (w Way) Keyed() bool { return w != Callback && w != Ring && w != Wake }

// Send sends a letter until its outcome is known, across restarts. A letter that
// has no key is sent once: if its outcome stays unknown, neither Acked nor
// Refused is set. The error belongs to the harness, or is an answer that no client
// should get.
func (s *Server) Send(ctx context.Context, l *Letter) error {
	for end := time.Now().Add(Patience); ; {
		l.Tries++
		l.Sent = time.Now()
		err := s.try(ctx, l)
		l.Taken = time.Since(l.Sent)
		if err == nil {
			l.Acked = true
			return nil
		}
		e, known := errors.AsType[*state.Error](err)
		if ctx.Err() != nil || !known {
			return fmt.Errorf("%s %s to %s: %w", l.Way, l.Key, l.Agent, err)
		}
		passing := e.Code == wire.CodeUnreachable || e.Code == wire.CodeDisconnected || wire.Retryable(e.Code)
		switch {
		case !passing && wire.Status(e.Code) < 500:
			l.Refused = e.Code
			return nil
		case !passing:
			return fmt.Errorf("%s %s to %s: %w", l.Way, l.Key, l.Agent, err)
		case e.Code != wire.CodeUnreachable && !l.Way.Keyed():
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%s %s to %s has no answer within %s: %w", l.Way, l.Key, l.Agent, Patience, err)
		}
		if err := Pause(ctx, 15*time.Millisecond); err != nil {
			return err
		}
	}
}

func (s *Server) try(ctx context.Context, l *Letter) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Patience,
		&state.Error{Code: wire.CodeInternal, Message: "the control plane did not answer within " + Patience.String()})
	defer cancel()
	switch l.Way {
	case Prompt:
		out, err := s.Client.Prompt(ctx, l.Agent, wire.Prompt{Text: l.text(), Priority: string(l.Priority)}, l.Key)
		return l.took(out, err)
	case Enqueue:
		out, err := s.Client.Enqueue(ctx, l.Agent, wire.Enqueue{Text: l.text(), Priority: string(l.Priority)}, l.Key)
		return l.took(out, err)
	case Webhook:
		return s.webhook(ctx, l)
	case Callback, Ring:
		return s.callback(ctx, l)
	case Wake:
		_, err := s.Client.Wake(ctx, l.Agent, wire.Wake{Reason: "something changed"})
		return err
	case Add:
		out, err := s.Client.CreateWork(ctx, l.Agent, wire.WorkItem{Objective: "an item of the operator"}, l.Key)
		l.ID = out.ID
		return err
	}
	t := wire.Timer{DurationMS: l.After.Milliseconds(), Summary: l.text()}
	if l.Way == Interval {
		t.IntervalMS = l.After.Milliseconds()
	}
	out, err := s.Client.CreateTimer(ctx, l.Agent, t, l.Key)
	l.ID = out.ID
	return err
}

func (l *Letter) took(out wire.Enqueued, err error) error {
	l.ID, l.Seq = out.MessageID, out.EventSeq
	return err
}

// webhook and callback post as programs do that know nothing of us.
func (s *Server) webhook(ctx context.Context, l *Letter) error {
	body, err := json.Marshal(object{"event": l.text()})
	if err != nil {
		return err
	}
	answer, err := s.stranger(ctx, "/webhooks/generic/"+url.PathEscape(l.Agent), "application/json", l.Key, body)
	if err != nil {
		return err
	}
	var out wire.Enqueued
	if err := json.Unmarshal(answer, &out); err != nil {
		return fmt.Errorf("the answer to a webhook: %w", err)
	}
	return l.took(out, nil)
}

func (s *Server) callback(ctx context.Context, l *Letter) error {
	s.mu.Lock()
	path := s.triggers[l.Agent]
	s.mu.Unlock()
	var body []byte
	if l.Way == Callback {
		body = []byte(l.text())
	}
	_, err := s.stranger(ctx, path, "text/plain", "", body)
	return err
}

// stranger posts, and makes of every failure the error that the client of the
// control plane would.
func (s *Server) stranger(ctx context.Context, path, contentType, key string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://holon"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := s.raw.Do(req)
	var answer []byte
	if err == nil {
		defer resp.Body.Close()
		answer, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && strings.Contains(err.Error(), "dial"):
		return nil, &state.Error{Code: wire.CodeUnreachable, Message: "no daemon", Err: err}
	case err != nil:
		return nil, &state.Error{Code: wire.CodeDisconnected, Message: "the daemon went away", Err: err}
	case resp.StatusCode >= http.StatusMultipleChoices:
		return nil, wire.DecodeFailure(resp.StatusCode, answer)
	}
	return answer, nil
}

// Create makes an agent and its trigger, whose URL is told only now.
func (s *Server) Create(ctx context.Context, agent string) error {
	if _, err := s.Client.Create(ctx, agent, ""); err != nil {
		return fmt.Errorf("create %s: %w", agent, err)
	}
	out, err := s.Client.RotateTrigger(ctx, agent, "")
	if err != nil {
		return fmt.Errorf("the trigger of %s: %w", agent, err)
	}
	at := strings.Index(out.TriggerURL, "/callbacks/")
	if at < 0 {
		return fmt.Errorf("the trigger of %s has no URL of a callback: %q", agent, out.TriggerURL)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.triggers[agent] = out.TriggerURL[at:]
	return nil
}
