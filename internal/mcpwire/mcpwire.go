// Package mcpwire carries the Model Context Protocol over a stream of bytes, one
// JSON message a line, between parties of which neither trusts the other.
//
// It is a transport for the official SDK, whose own has fewer bounds. The
// invariant: whatever the other side writes, no more than one message of a
// bounded size is held, no more than a bounded number of its requests is being
// answered, and its notifications are taken at a bounded rate; beyond that it is
// not read, which holds it up. A message that is too large, or malformed, costs its
// call and not the connection. Lines that are no messages, which many programs log on
// their standard output, are skipped at the same rate as notifications.
//
// It does not promise that a message which Write took was read.
package mcpwire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/internal/visible"
)

// Bounds that hold for every stream.
const (
	DefaultMaxMessage = 16 << 20 // bytes of one message

	maxAnswering = 32              // requests of the other side that are being answered
	maxSkipped   = 256 << 20       // bytes of a message that is skipped
	idBytes      = 4 << 10         // of a message that is skipped, in which its id is looked for
	maxExcerpt   = 300             // bytes of a malformed message in its error
	writeTimeout = 5 * time.Second // of a Conn, for a message to be taken
	burst        = 200             // notifications, and lines that are no messages, within window
	window       = 100 * time.Millisecond
)

// CodeTooLarge is the code of the error that answers a call whose result was
// larger than Stream.MaxMessage.
const CodeTooLarge = -32098

// CodeMalformed is the code of the error that answers a call whose answer was no JSON-RPC message.
const CodeMalformed = -32097

// Keys of what agentd and the host add to the _meta of messages.
const (
	MetaCallID    = "holon/call_id"    // of tools/call: the same when a call is repeated, also on another connection
	MetaTurnToken = "holon/turn_token" // of tools/call to the host alone: the turn's token
	MetaRound     = "holon/round"      // of a tool that asks for the round of its calls, and of tools/call: that round
	MetaDirective = "holon/directive"  // of a result of the host: its responses.Directive
	MetaSummary   = "holon/summary"    // of a result of the host: one line that says what happened
	// of a tool of the host that has the name of a built-in one and does not replace it: true
	MetaCompletes = "holon/completes"
)

// errClosed is the reason of a stream that was closed on this side.
var errClosed = errors.New("the connection was closed")

// writer takes whole messages. It must not block without end: what it cannot
// write in reasonable time is an error.
type writer interface {
	Write(ctx context.Context, message []byte) error
}

// Conn is the writer of a socket. It gives up on another side that does not read.
type Conn struct{ net.Conn }

// Write implements the Writer of a Stream.
func (c Conn) Write(_ context.Context, message []byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := c.Conn.Write(message)
	return err
}

// Stream is a transport for one connection. Connect it once.
type Stream struct {
	Reader io.Reader
	Writer writer
	// Close ends both directions, and makes a Read that is waiting return. It is
	// called once.
	Close      func() error
	MaxMessage int // bytes; 0 means DefaultMaxMessage
}

func (s *Stream) Connect(context.Context) (mcp.Connection, error) {
	c := &conn{stream: s, limit: s.MaxMessage, answering: make(chan struct{}, maxAnswering),
		pending: make(map[jsonrpc.ID]bool), closed: make(chan struct{})}
	if c.limit <= 0 {
		c.limit = DefaultMaxMessage
	}
	c.reader = bufio.NewReaderSize(s.Reader, 16<<10)
	return c, nil
}

// conn implements mcp.Connection.
type conn struct {
	stream *Stream
	reader *bufio.Reader // Read's alone, which the SDK calls from one goroutine
	limit  int
	rate   rate

	answering chan struct{} // one token for each request in pending

	mu      sync.Mutex
	pending map[jsonrpc.ID]bool // requests of the other side that wait for our answer
	writing sync.Mutex

	once     sync.Once
	closed   chan struct{}
	closeErr error
}

// SessionID implements mcp.Connection: a stream is its own session.
func (c *conn) SessionID() string { return "" }

// Read returns the next message that matters.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		line, err := c.line()
		var large *tooLarge
		if errors.As(err, &large) && large.id.IsValid() {
			answer := &jsonrpc.Response{ID: large.id, Error: &jsonrpc.Error{Code: CodeTooLarge, Message: large.Error()}}
			if !large.request {
				return answer, nil
			}
			answer.Error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: large.Error()}
			if err := c.Write(ctx, answer); err != nil { // the other side waits for it
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		msg := decode(line)
		if msg == nil {
			c.rate.wait(c.closed)
			continue
		}
		req, ok := msg.(*jsonrpc.Request)
		if !ok {
			return msg, nil
		}
		take, err := c.admit(req)
		if err != nil {
			return nil, err
		}
		if take {
			return req, nil
		}
	}
}

// decode reads one message, nil if the line is none. A malformed answer becomes the error of its call, which would
// wait in vain otherwise. Batches, which newer versions of the protocol do not have, are not taken.
func decode(line []byte) jsonrpc.Message {
	msg, err := jsonrpc.DecodeMessage(line)
	if answer, ok := msg.(*jsonrpc.Response); ok {
		answer.ID = numbered(answer.ID)
	}
	if err == nil {
		return msg
	}
	head := line[:min(len(line), idBytes)]
	id, request := idOf(head)
	if !id.IsValid() || request || !bytes.Contains(head, []byte(`"jsonrpc"`)) {
		return nil
	}
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: CodeMalformed,
		Message: fmt.Sprintf("%v: %s", err, visible.Clip(string(line), maxExcerpt))}}
}

// numbered returns the number that an id is the text of: the SDK counts its requests, and some servers answer with
// text.
func numbered(id jsonrpc.ID) jsonrpc.ID {
	text, _ := id.Raw().(string)
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		if number, err := jsonrpc.MakeID(float64(n)); err == nil {
			return number
		}
	}
	return id
}

// admit decides on unsolicited messages of the other side. A request waits until
// few enough others are being answered; notifications without a handler are
// dropped, and a flood of the others is slowed.
func (c *conn) admit(req *jsonrpc.Request) (bool, error) {
	if !req.ID.IsValid() {
		c.rate.wait(c.closed)
		switch req.Method {
		case "notifications/initialized", "notifications/cancelled", "notifications/tools/list_changed",
			"notifications/subscriptions/acknowledged":
			return true, nil
		}
		return false, nil
	}
	select {
	case c.answering <- struct{}{}:
	case <-c.closed:
		return false, errClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[req.ID] { // one answer serves both
		<-c.answering
		return false, nil
	}
	c.pending[req.ID] = true
	return true, nil
}

// Write writes one message.
func (c *conn) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	select {
	case <-c.closed:
		return errClosed
	default:
	}
	if err := c.stream.Writer.Write(ctx, append(data, '\n')); err != nil {
		return fmt.Errorf("write message: %w", err)
	}
	if resp, ok := msg.(*jsonrpc.Response); ok {
		c.answered(resp.ID)
	}
	return nil
}

func (c *conn) answered(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[id] {
		delete(c.pending, id)
		<-c.answering
	}
}

func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.closeErr = c.stream.Close()
	})
	return c.closeErr
}

// line returns the next line that may be a message, without its end.
func (c *conn) line() ([]byte, error) {
	for {
		line, err := c.readLine()
		if err != nil {
			return nil, err
		}
		line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte(byteOrderMark)))
		if len(line) > 0 && line[0] == '{' {
			return line, nil
		}
		c.rate.wait(c.closed)
		select {
		case <-c.closed:
			return nil, errClosed
		default:
		}
	}
}

// byteOrderMark begins what some programs write first.
const byteOrderMark = "\uFEFF"

// readLine reads a line of at most the limit. It reads a longer one to its end and
// returns a *tooLarge, or nothing if that cannot have been a message.
func (c *conn) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := c.reader.ReadSlice('\n')
		if len(line)+len(part) > c.limit {
			head := append(line[:min(len(line), idBytes)], part[:min(len(part), idBytes)]...)
			return nil, c.skip(head, err)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && json.Valid(line):
			return line, nil // it is complete without its end
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// skip reads a line to its end. err is what the last read of it returned.
func (c *conn) skip(head []byte, err error) error {
	for skipped := 0; err != nil; {
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		var part []byte
		part, err = c.reader.ReadSlice('\n')
		if skipped += len(part); skipped > maxSkipped {
			return fmt.Errorf("a message has more than %d bytes", maxSkipped)
		}
	}
	if first := bytes.TrimSpace(head); len(first) == 0 || first[0] != '{' {
		return nil
	}
	e := &tooLarge{limit: c.limit}
	e.id, e.request = idOf(head)
	return e
}

// tooLarge says that a message exceeded the limit.
type tooLarge struct {
	id      jsonrpc.ID // not valid when that is not known
	request bool       // it is a call, and not an answer
	limit   int
}

func (e *tooLarge) Error() string {
	return fmt.Sprintf("the message has more than %d bytes", e.limit)
}

// idOf finds the id in the beginning of a message, and whether that is a request. The id is not valid when the
// beginning does not show one.
func idOf(head []byte) (id jsonrpc.ID, request bool) {
	dec := json.NewDecoder(bytes.NewReader(head))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return id, false
	}
	for {
		key, err := dec.Token()
		if err != nil || key == "result" || key == "error" || key == "params" {
			return id, request
		}
		request = request || key == "method"
		value, err := dec.Token()
		if _, nested := value.(json.Delim); err != nil || nested {
			return id, request
		}
		if key == "id" {
			if id, err = jsonrpc.MakeID(value); err != nil {
				return jsonrpc.ID{}, request
			}
		}
	}
}

// rate slows what comes faster than burst in window.
type rate struct {
	began time.Time
	count int
}

func (r *rate) wait(closed <-chan struct{}) {
	now := time.Now()
	if now.Sub(r.began) > window {
		r.began, r.count = now, 0
	}
	if r.count++; r.count <= burst {
		return
	}
	timer := time.NewTimer(window - now.Sub(r.began))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-closed:
	}
}
