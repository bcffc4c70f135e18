package answers

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/state"
	"holon/state/ledger"
)

// reader reads the events of a response from its first one on, as they come.
type reader struct {
	*Answers
	m    ledger.Message
	back bool     // the response is made in the background for its client
	lead [][]byte // response.created and response.queued, which follow from the message

	next int64 // number of the next event
	at   place
	file *os.File // events.ndjson of the turn
	in   *bufio.Reader
	part []byte // the beginning of a line
	held []byte // the last event, until the ledger has the end of the turn
	done bool   // it was passed on
}

// place is what has become of the message.
type place struct {
	entry  ledger.Entry
	turnID string       // of the turn that has begun, "" for none
	hidden string       // response that the turn goes on from, when it is not one of the speaker's
	ended  *ledger.Turn // that turn; nil while it runs
}

// over reports whether nothing more becomes of the response.
func (p place) over() bool { return p.entry.Status.Terminal() }

// open begins to read a response.
func (a *Answers) open(m ledger.Message) (*reader, error) {
	r := &reader{Answers: a, m: m}
	req, err := responses.DecodeRequest(m.Request)
	if err != nil {
		return nil, responses.Internal("the request of the response cannot be read", err)
	}
	req.PreviousResponseID, r.back = m.Previous, req.Background
	resp := responses.NewResponse(m.ResponseID(), Prefix+m.AgentID, m.CreatedAt.Unix(), req)
	resp.Status = responses.StatusQueued
	_, err = responses.NewEmitter(resp, func(_ string, data []byte) error {
		r.lead = append(r.lead, bytes.Clone(data))
		return nil
	})
	return r, err
}

func (r *reader) close() {
	if r.file != nil {
		_ = r.file.Close() // it was only read
	}
}

// read passes each event to send, in order: those that there are, or with wait all to the last one. idle is called
// while nothing comes.
func (r *reader) read(ctx context.Context, wait bool, send func(line []byte) error, idle func() error) error {
	defer r.close()
	for _, line := range r.lead {
		if err := r.take(line, send); err != nil {
			return err
		}
	}
	for {
		changed := r.Store.Changed(r.m.AgentID)
		if err := r.look(ctx); err != nil {
			return err
		}
		if err := r.drain(send); err != nil {
			return err
		}
		if r.at.over() {
			return r.finish(send)
		}
		if !wait {
			return nil
		}
		if err := r.follow(ctx, changed, send, idle); err != nil {
			return err
		}
	}
}

// follow passes on what the turn writes until the ledger has something new.
func (r *reader) follow(ctx context.Context, changed <-chan struct{}, send func([]byte) error,
	idle func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for silent := time.Duration(0); ; silent += interval {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
			return nil
		case <-tick.C:
		}
		before := r.next
		if err := r.drain(send); err != nil {
			return err
		}
		if r.next > before {
			silent = 0
		}
		if silent >= heartbeat {
			silent = 0
			if err := idle(); err != nil {
				return err
			}
		}
	}
}

// interval is how often the file of a turn that runs is looked at.
const interval = 20 * time.Millisecond

// heartbeat is how long a stream may be silent.
const heartbeat = 15 * time.Second

// look finds out what has become of the message.
func (r *reader) look(ctx context.Context) error {
	var p place
	err := r.Store.View(ctx, func(v ledger.View) (err error) {
		p = place{}
		if p.entry, err = v.Entry(r.m.ID); err != nil || p.entry.AttemptID == "" {
			return err
		}
		attempt, err := v.Attempt(p.entry.AttemptID)
		if err != nil || attempt.BegunAt == nil {
			return err
		}
		if p.turnID, p.hidden = attempt.TurnID, attempt.Chain; p.hidden != "" {
			if known, err := r.known(v, attempt.Chain); err != nil {
				return err
			} else if known {
				p.hidden = ""
			}
		}
		if t, err := v.Turn(attempt.TurnID); err == nil {
			p.ended = &t
		} else if !state.IsCode(err, ledger.CodeNotFound) {
			return err
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		return responses.Internal("what became of the message cannot be read", err)
	}
	r.at = p
	return err
}

// known reports whether the speaker of the message may know a response: an operator may know all, others their own. Who
// reads makes no difference.
func (r *reader) known(v ledger.View, responseID string) (bool, error) {
	if r.m.Origin.Kind == ledger.OriginOperator || r.m.Previous == responseID {
		return true, nil
	}
	m, err := v.Message(ledger.OfResponse(responseID))
	if state.IsCode(err, ledger.CodeNotFound) {
		return false, nil
	}
	return err == nil && m.ResponseID() != "" && speaker(m) == speaker(r.m), err
}

// shown is an event of the turn as its reader may see it. The host has every turn of an agent made in the background.
func (r *reader) shown(line []byte, ev responses.Event) []byte {
	const background = `,"background":true,`
	// it is behind output and tools
	if at := bytes.LastIndex(line, []byte(background)); ev.Response != nil && !r.back && at >= 0 {
		line = slices.Concat(line[:at], []byte(`,"background":false,`), line[at+len(background):])
	}
	if ev.Response == nil || ev.Response.PreviousResponseID == nil || r.at.hidden == "" {
		return line
	}
	const key = `"previous_response_id":`
	return bytes.ReplaceAll(line, []byte(key+strconv.Quote(r.at.hidden)), []byte(key+"null"))
}

// drain passes on the events that the turn has written. The last one waits for the ledger.
func (r *reader) drain(send func([]byte) error) error {
	if r.at.turnID == "" {
		return nil
	}
	if r.file == nil {
		f, err := r.OpenTurnFile(r.m.AgentID, r.at.turnID, turns.EventsFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return responses.Internal("the events of the turn cannot be read", err)
		}
		r.file, r.in = f, bufio.NewReader(f)
	}
	for !r.ended() {
		if r.held == nil {
			line, err := r.line()
			if err != nil || line == nil {
				return err
			}
			ev, err := responses.DecodeEvent(line) // commands of the container could have written it
			if err != nil {
				return responses.Internal("the events of the turn are not what agentd writes", err)
			}
			if ev.SequenceNumber != r.next { // what the message says itself
				continue
			}
			line = r.shown(line, ev)
			if !last(ev) {
				if err := r.take(line, send); err != nil {
					return err
				}
				continue
			}
			r.held = bytes.Clone(line)
		}
		if !r.at.over() {
			return nil
		}
		r.done = true
		return r.take(r.held, send)
	}
	return nil
}

// line reads the next whole line, nil when it is not written yet. It is valid until the next call.
func (r *reader) line() ([]byte, error) {
	if n := len(r.part); n > 0 && r.part[n-1] == '\n' {
		r.part = r.part[:0]
	}
	for {
		piece, err := r.in.ReadSlice('\n')
		r.part = append(r.part, piece...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(r.part, []byte{'\n'}), nil
		case err == io.EOF:
			return nil, nil
		case !errors.Is(err, bufio.ErrBufferFull) || len(r.part) > responses.MaxResponse:
			return nil, responses.Internal("the events of the turn cannot be read", err)
		}
	}
}

// ended reports whether all events are passed on that the host saw of an ended turn. A later agentd may have added some
// to those of a turn that was cut.
func (r *reader) ended() bool { return r.at.ended != nil && r.next >= r.at.ended.Events }

func last(ev responses.Event) bool { return ev.Response != nil && ev.Response.Status.Terminal() }

func (r *reader) take(line []byte, send func([]byte) error) error {
	r.next++
	return send(line)
}

// finish ends a response of which nothing more comes: with the end that the turn has, else with one that follows from
// what became of the message.
func (r *reader) finish(send func([]byte) error) error {
	if r.done {
		return nil
	}
	// Of an interrupted one a client learns at least that, as a container that something removed took its events along.
	if t := r.at.ended; t != nil && t.Events > r.next && r.file == nil && r.at.entry.Status != ledger.Interrupted {
		return errGone(r.m.ResponseID())
	}
	events, err := r.again()
	if err != nil {
		return err
	}
	em, err := responses.Resume(slices.Values(events), func(_ string, data []byte) error { return r.take(data, send) })
	if err != nil {
		return responses.Internal("the events of the turn are not what agentd writes", err)
	}
	return r.end(em)
}

// end gives a response the terminal event that the ledger says it has.
func (r *reader) end(em *responses.Emitter) error {
	e, t := r.at.entry, r.at.ended
	why := &responses.Error{Type: responses.TypeServerError, Code: responses.CodeServerError,
		Message: cmp.Or(e.Reason, "the agent made no turn of the message")}
	usage := responses.Usage{}
	if t != nil && t.Usage != nil {
		usage = t.Usage.Usage
	}
	switch e.Status {
	case ledger.Dropped:
		why.Code = responses.CodeCancelled
		return em.Cancel(why, usage)
	case ledger.Aborted:
		if t == nil || t.Failure == nil || t.Stopped() {
			why.Code = responses.CodeCancelled
			return em.Cancel(why, usage)
		}
		why.Code, why.Message = t.Failure.Code, t.Failure.Summary
	case ledger.Quarantined:
		if e.Refusal != "" {
			why.Type, why.Code = responses.TypeInvalidRequest, e.Refusal
		}
	case ledger.Interrupted:
		why.Code = responses.CodeInterrupted
		why.Hint = "look at what the agent has done, then send what is left to do"
	}
	return em.Fail(why, usage)
}

// again reads the events that were passed on once more.
func (r *reader) again() (events []responses.Event, err error) {
	upTo := r.next
	once := &reader{Answers: r.Answers, m: r.m, back: r.back, lead: r.lead, at: r.at}
	defer once.close()
	take := func(line []byte) error {
		if int64(len(events)) == upTo {
			return nil
		}
		ev, err := responses.DecodeEvent(line)
		events = append(events, ev)
		return err
	}
	for _, line := range r.lead {
		if err := once.take(line, take); err != nil {
			return nil, err
		}
	}
	return events, once.drain(take)
}

func errGone(id string) error {
	e := responses.NotFound("id", responses.CodeNotFound, "the events of "+id+" are not kept any more")
	e.Hint = "the agent has its conversation; its record has the text"
	return e
}
