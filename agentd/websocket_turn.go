package agentd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/coder/websocket"

	"holon/responses"
)

// answer runs the turn that a message asks for and sends its events. The error
// is why there is no turn; the failure of a turn is one of its events.
func (c *wsConn) answer(m message) error {
	if m.err != nil {
		return m.err
	}
	req, previous, err := decodeCreate(m.text)
	if err != nil {
		c.evict(previous)
		return err
	}
	v, err := c.server.accept(req, origin{"websocket", c.token}, c.mem)
	if err != nil {
		c.evict(previous)
		return err
	}
	defer v.release()
	defer v.attach()()
	c.tell(v)
	select {
	case <-v.done:
	case <-c.ctx.Done():
		return nil
	}
	if resp, _ := v.result(); resp == nil || resp.Status == responses.StatusFailed {
		c.evict(previous)
	} else {
		c.mem = v.memory()
	}
	return nil
}

// evict forgets the conversation that a failed message wanted to continue: the
// client cannot know any more what it would continue (Open Responses,
// "WebSocket").
func (c *wsConn) evict(previous string) {
	if c.mem.holds(previous) {
		c.mem = nil
	}
}

// tell sends the turn's events, one a frame, as they become durable. When the
// peer is lost, it returns early and the connection is over.
func (c *wsConn) tell(v *view) {
	f := v.events.Follow()
	for sent := int64(0); ; {
		lines, err := f.Next(c.ctx)
		switch {
		case errors.Is(err, io.EOF):
			return
		case c.ctx.Err() != nil:
			return
		case err != nil: // the log broke (a full disk): the client still gets a legal end
			c.server.log.Error("the event log broke off", "err", err)
			if lines, err = brokenEnd(v, sent, recordError(err)); err == nil {
				err = c.send(lines)
			}
			if err != nil {
				c.end()
			}
			return
		}
		if err := c.send(lines); err != nil {
			c.end()
			return
		}
		sent += int64(bytes.Count(lines, []byte{'\n'}))
	}
}

// refuse sends an error frame.
func (c *wsConn) refuse(err error) {
	if c.send(append(errorFrame(responses.AsError(c.server.logged(err))), '\n')) != nil {
		c.end()
	}
}

// send sends lines, each in a text frame of its own, as many in one write as
// there are. The reader is given its
// time for each part of bounded size, so that a slow line is no reason to lose
// it; a reader that takes nothing is lost, and its connection with it.
func (c *wsConn) send(lines []byte) error {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	stalled := time.AfterFunc(c.server.waits.write, cancel)
	defer stalled.Stop()
	const frameHead = 10 // bytes at most
	c.wire.hold(len(lines) + frameHead*bytes.Count(lines, []byte{'\n'}))
	defer c.writing.Store(0)
	for line := range bytes.Lines(lines) {
		c.writing.Store(time.Now().UnixNano())
		if err := c.write(ctx, stalled, bytes.TrimSuffix(line, []byte{'\n'})); err != nil {
			return errors.Join(errReader, err, c.wire.release(ctx))
		}
	}
	stalled.Reset(c.server.waits.write)
	c.writing.Store(time.Now().UnixNano())
	if err := c.wire.release(ctx); err != nil {
		return errors.Join(errReader, err)
	}
	c.wrote.Store(time.Now().UnixNano())
	return nil
}

// write sends one text. A long one goes in several fragments, which the
// protocol joins again.
func (c *wsConn) write(ctx context.Context, stalled *time.Timer, text []byte) error {
	if len(text) <= maxWrite {
		stalled.Reset(c.server.waits.write)
		return c.conn.Write(ctx, websocket.MessageText, text)
	}
	w, err := c.conn.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(text, maxWrite) {
		stalled.Reset(c.server.waits.write)
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return w.Close()
}
