package websocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"

	"holon/responses"
)

// Bounds of what waits on a connection behind the running turn. Together,
// messages are bounded by the size of one.
const (
	maxWaiting = 16 // messages
	maxRefused = 64 // messages beyond, each of which waits to be refused in its turn
)

// pongGrace is how long a peer may be silent after it was asked whether it is there.
const pongGrace = time.Minute

// message is what waits: a text, or why it is refused.
type message struct {
	text []byte
	err  error
}

// waiting is the queue between read and serve.
type waiting struct {
	list chan message

	mu    sync.Mutex
	count int // texts in list
	bytes int // theirs
}

func newWaiting() waiting { return waiting{list: make(chan message, maxWaiting+maxRefused)} }

// put adds a message, or its refusal when too many wait. It reports false when
// not even that has room.
func (q *waiting) put(m message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.err == nil && q.count > 0 && (q.count >= maxWaiting || q.bytes+len(m.text) > responses.MaxRequest) {
		m = message{err: &responses.Error{Type: responses.TypeTooManyRequests, Code: responses.CodeQueueFull,
			Message: fmt.Sprintf("a connection queues %d messages of together %d MiB", maxWaiting,
				responses.MaxRequest>>20),
			Hint: "send the next response.create after the end of the one before"}}
	}
	select {
	case q.list <- m:
	default:
		return false
	}
	if m.err == nil {
		q.count, q.bytes = q.count+1, q.bytes+len(m.text)
	}
	return true
}

// took notes that serve has taken m.
func (q *waiting) took(m message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.err == nil {
		q.count, q.bytes = q.count-1, q.bytes-len(m.text)
	}
}

// read takes in messages until the connection ends. It never waits for a turn,
// so that a client which goes is noticed at once.
func (c *Conn) read() {
	defer c.end()
	for {
		m, err := c.receive()
		if errors.Is(err, websocket.ErrMessageTooBig) {
			c.close(websocket.StatusMessageTooBig, fmt.Sprintf("a message may have %d MiB", responses.MaxRequest>>20))
		}
		if err != nil {
			c.options.Log.Debug("a WebSocket ended", "err", err)
			return
		}
		if !c.queue.put(m) {
			c.close(websocket.StatusPolicyViolation, "too many messages wait for their answer")
			return
		}
	}
}

// receive reads one message whole.
func (c *Conn) receive() (message, error) {
	kind, r, err := c.conn.Reader(c.ctx)
	if err != nil {
		return message{}, err
	}
	c.heard.Store(time.Now().UnixNano())
	if kind != websocket.MessageText {
		if _, err := io.Copy(io.Discard, &listened{r, c}); err != nil {
			return message{}, err
		}
		return message{err: responses.Invalid("", responses.CodeUnsupportedMediaType,
			"a message must be a text frame, not a binary one")}, nil
	}
	text, err := io.ReadAll(&listened{r, c})
	return message{text: text}, err
}

// listened notes that something came: a peer that sends a large message cannot
// answer a ping meanwhile.
type listened struct {
	io.Reader
	c *Conn
}

// Read implements io.Reader.
func (l *listened) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	l.c.heard.Store(time.Now().UnixNano())
	return n, err
}

// ping finds out when the peer is gone without a word. It asks only when the
// connection is quiet: texts that do not go through say the same, and a ping that has
// no room to be sent would end a connection whose reader is only slow.
func (c *Conn) ping() {
	every := c.options.Ping
	for tick := time.NewTicker(every); ; {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			tick.Stop()
			return
		}
		if c.writing.Load() != 0 || since(c.wrote.Load()) < every || since(c.heard.Load()) < every {
			continue
		}
		ctx, cancel := context.WithTimeout(c.ctx, pongGrace)
		err := c.conn.Ping(ctx)
		cancel()
		if err != nil && c.writing.Load() == 0 && since(c.heard.Load()) >= pongGrace {
			c.end()
		}
	}
}

// pinged is told of the peer's pings and reports whether to answer now. The
// answer to a peer that does not read cannot be sent, and must not end the
// connection before its time.
func (c *Conn) pinged(context.Context, []byte) bool {
	c.heard.Store(time.Now().UnixNano())
	at := c.writing.Load()
	return at == 0 || since(at) < time.Second
}

// since returns the time since at, in Unix nanoseconds.
func since(at int64) time.Duration { return time.Duration(time.Now().UnixNano() - at) }
