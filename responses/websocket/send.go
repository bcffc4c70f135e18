package websocket

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/coder/websocket"

	"holon/responses"
)

// maxWrite bounds one write, in bytes.
const maxWrite = 1 << 20

// refuse sends an error frame.
func (c *Conn) refuse(err error) {
	if c.Send(append(c.options.Clean(errorFrame(responses.AsError(err))), '\n')) != nil {
		c.end()
	}
}

// Send sends lines, each in a text frame of its own. The peer has Options.Stall for
// each part of bounded size: a slow peer is kept, one that reads nothing is lost, and
// the connection with it.
func (c *Conn) Send(lines []byte) error {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	stalled := time.AfterFunc(c.options.Stall, cancel)
	defer stalled.Stop()
	defer c.writing.Store(0)
	for line := range bytes.Lines(lines) {
		c.writing.Store(time.Now().UnixNano())
		if err := c.write(ctx, stalled, bytes.TrimSuffix(line, []byte{'\n'})); err != nil {
			return err
		}
	}
	c.wrote.Store(time.Now().UnixNano())
	return nil
}

// write sends one text. A long one goes in several fragments, which the
// protocol joins again.
func (c *Conn) write(ctx context.Context, stalled *time.Timer, text []byte) error {
	if len(text) <= maxWrite {
		stalled.Reset(c.options.Stall)
		return c.conn.Write(ctx, websocket.MessageText, text)
	}
	w, err := c.conn.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(text, maxWrite) {
		stalled.Reset(c.options.Stall)
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return w.Close()
}
