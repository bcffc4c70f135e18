package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"holon/responses"
	"holon/responses/stream"
	"holon/responses/turns"
)

// maxResumes bounds how often Entries takes up a journal that brings nothing new.
const maxResumes = 3

// resumePause grows with each time that nothing came.
const resumePause = 100 * time.Millisecond

// Entries yields what a turn does, from its first entry on, until the turn is over, and takes it up where it was when
// the connection breaks. Deltas of its stream are yielded where they are wanted. It ends without an error only after
// exactly one terminal event of the turn's stream and what follows that. An error event of the stream becomes the error
// it carries. An error comes with a zero entry and is the last pair.
func (c *Client) Entries(ctx context.Context, turnID string, deltas bool) iter.Seq2[turns.Entry, error] {
	return func(yield func(turns.Entry, error) bool) {
		if err := responses.CheckID("turn_id", turnID); err != nil {
			yield(turns.Entry{}, err)
			return
		}
		f := following{client: c, path: "/turns/" + turnID + "/events", deltas: deltas}
		for idle := 0; ; {
			before := f.last
			err := f.read(ctx, yield)
			if f.last > before {
				idle = 0
			} else {
				idle++
			}
			lost, ok := errors.AsType[*responses.Error](err)
			if ok && lost.Code == responses.CodeServerDisconnected && idle <= maxResumes {
				if idle > 0 { // what ends a connection may end the next one, too
					select {
					case <-ctx.Done():
					case <-time.After(time.Duration(idle) * resumePause):
					}
				}
				continue
			}
			if err != nil && !errors.Is(err, errLeft) {
				yield(turns.Entry{}, err)
			}
			return
		}
	}
}

// errLeft is the end of an iteration that its caller left.
var errLeft = errors.New("the caller stopped")

// following is where a reader of a journal is.
type following struct {
	client *Client
	path   string
	deltas bool  // they are yielded
	last   int64 // number of the last entry
	over   bool  // the terminal event has come
}

// skips reports whether a line is the next one, and a delta that is not wanted, from an agentd that does not leave them
// out: it costs more to decode than to send.
func (f *following) skips(line []byte) bool {
	if f.deltas || f.over {
		return false
	}
	seq, key, value, ok := turns.CutEntry(line)
	return ok && seq == f.last+1 && turns.IsDelta(key, value)
}

// read yields the entries after the last one. A nil error means that the turn is over.
func (f *following) read(ctx context.Context, yield func(turns.Entry, error) bool) error {
	c, what, query := f.client, "GET "+f.path, "?follow=true&after="+strconv.FormatInt(f.last, 10)
	if !f.deltas {
		query += "&deltas=false"
	}
	for line, err := range c.lines(ctx, f.path+query) {
		if err != nil {
			return err
		}
		if f.skips(line) {
			f.last++
			continue
		}
		e, err := turns.DecodeEntry(line)
		if err == nil {
			err = f.check(e)
		}
		if err != nil {
			return c.badAnswer(what, err)
		}
		if e.Stream != nil && e.Stream.Type == responses.EventError {
			return errorOf(*e.Stream)
		}
		if f.last = e.Seq; !yield(e, nil) {
			return errLeft
		}
	}
	if !f.over {
		return c.broken(ctx, what, io.ErrUnexpectedEOF)
	}
	return nil
}

// check refuses an entry that does not follow the one before. Without deltas there are gaps.
func (f *following) check(e turns.Entry) error {
	switch {
	case e.Seq <= f.last, f.deltas && e.Seq != f.last+1:
		return fmt.Errorf("the entry %d follows %d", e.Seq, f.last)
	case e.Stream != nil && f.over:
		return errors.New("the stream goes on after its terminal event")
	case e.Stream != nil:
		f.over = responses.Terminal(e.Stream.Type)
	}
	return nil
}

// lines makes a call whose answer is lines of JSON. A line is valid until the next; an error is the last pair.
func (c *Client) lines(ctx context.Context, path string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		resp, err := c.do(ctx, http.MethodGet, path, nil, stream.TypeNDJSON)
		if err != nil {
			yield(nil, err)
			return
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			yield(nil, c.failure(ctx, resp))
			return
		}
		for line, err := range stream.NewDecoder(resp.Body, stream.NDJSON).Limit(maxResponse).Lines() {
			if ctx.Err() == nil && errors.Is(err, stream.ErrTooLarge) {
				yield(nil, c.badAnswer("GET "+path, err))
				return
			} else if err != nil {
				yield(nil, c.broken(ctx, "GET "+path, err))
				return
			}
			if !yield(line, nil) {
				return
			}
		}
	}
}

func errorOf(ev responses.Event) error {
	if ev.Error == nil || ev.Error.Message == "" {
		return responses.Internal("the server sent an error event without a message", nil)
	}
	return ev.Error
}
