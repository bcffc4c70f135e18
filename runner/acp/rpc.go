package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Bounds of what an editor sends.
const (
	maxLine      = 64 << 20 // bytes of one message; a prompt may have images
	maxAnswering = 64       // requests that are being answered
	maxID        = 256      // bytes of the id of a request
)

// Codes of errors: those of JSON-RPC, and one of the Agent Client Protocol.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeBusy           = -32000
	codeNotFound       = -32002
)

// rpcError is an error of JSON-RPC.
type rpcError struct {
	Code    int        `json:"code"`
	Message string     `json:"message"`
	Data    *errorData `json:"data,omitempty"`
}

// errorData says more about an error of the daemon.
type errorData struct {
	Code  string `json:"code,omitempty"`
	Param string `json:"param,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

func (e *rpcError) Error() string { return e.Message }

func invalidParams(format string, a ...any) *rpcError {
	return &rpcError{Code: codeInvalidParams, Message: fmt.Sprintf(format, a...)}
}

// message is any message of JSON-RPC.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// methodCancel is the one notification that is taken.
const methodCancel = "session/cancel"

// handler answers requests. That of a notification returns soon, and its result is ignored.
type handler func(ctx context.Context, method string, params json.RawMessage) (any, error)

// conn is a connection with an editor: one JSON-RPC message a line in both directions. Requests are answered side by
// side; a notification is taken before what comes after it.
type conn struct {
	in     *bufio.Reader
	handle handler

	writing sync.Mutex
	out     io.Writer

	answering errgroup.Group // of requests

	mu      sync.Mutex
	next    int64
	pending map[string]chan message // requests of ours by id
}

func newConn(in io.Reader, out io.Writer, handle handler) *conn {
	c := &conn{in: bufio.NewReaderSize(in, 64<<10), out: out, handle: handle, pending: map[string]chan message{}}
	c.answering.SetLimit(maxAnswering)
	return c
}

// serve answers until the input ends, which is no error, or ctx, or the output takes nothing more. Requests that are
// being answered then have an ended context, and are waited for.
func (c *conn) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { cancel(c.read(ctx)) }() // which nothing interrupts
	<-ctx.Done()
	err := c.answering.Wait()
	if why := context.Cause(ctx); !errors.Is(why, io.EOF) {
		return why
	}
	return err
}

// read takes messages until there is no other one, which is io.EOF.
func (c *conn) read(ctx context.Context) error {
	for {
		line, err := c.line()
		if broken, ok := errors.AsType[*rpcError](err); ok {
			err = c.refuse(nil, broken)
		} else if err == nil && len(line) > 0 {
			err = c.take(ctx, line)
		}
		if err != nil {
			return err
		}
	}
}

// line reads the next line without the spaces around it. One that is too long is skipped, and an *rpcError.
func (c *conn) line() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := c.in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; !long {
			line = append(line, part...)
		} else {
			line = nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, err // a line that does not end may be half a message
		case long:
			return nil, &rpcError{Code: codeInvalidRequest, Message: fmt.Sprintf("a message has over %d MiB", maxLine>>20)}
		}
		return bytes.TrimSpace(line), nil
	}
}

// take answers one message. Its error is one of writing.
func (c *conn) take(ctx context.Context, line []byte) error {
	var m message
	if !json.Valid(line) {
		return c.refuse(nil, &rpcError{Code: codeParse, Message: "the line is not JSON"})
	}
	err := json.Unmarshal(line, &m)
	if isAnswer := m.Result != nil || m.Error != nil; err != nil || m.Version != "2.0" || !isAnswer && !validID(m.ID) {
		return c.refuse(nil, &rpcError{Code: codeInvalidRequest, Message: "the line is not a message of JSON-RPC 2.0"})
	}
	switch {
	case m.Method == "" && (m.Result != nil || m.Error != nil):
		c.answered(m)
		return nil
	case m.Method == "":
		return c.refuse(m.ID, &rpcError{Code: codeInvalidRequest, Message: "the message has no method"})
	case m.ID == nil && m.Method == methodCancel:
		_, _ = c.handle(ctx, m.Method, m.Params) // a notification has no answer
		return nil
	case m.ID == nil:
		return nil
	}
	if !c.answering.TryGo(func() error {
		result, err := c.handle(ctx, m.Method, m.Params)
		return c.answer(m.ID, result, err)
	}) {
		return c.refuse(m.ID, &rpcError{Code: codeBusy, Message: "too many requests are being answered"})
	}
	return nil
}

// validID reports whether an id is absent, or a short text or number.
func validID(id json.RawMessage) bool {
	return len(id) == 0 || len(id) <= maxID && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

func (c *conn) answer(id json.RawMessage, result any, err error) error {
	if err != nil {
		return c.refuse(id, rpcErrorOf(err))
	}
	data, err := json.Marshal(result)
	if err != nil {
		return c.refuse(id, &rpcError{Code: codeInternal, Message: "the result cannot be encoded"})
	}
	return c.write(message{ID: id, Result: data})
}

func (c *conn) refuse(id json.RawMessage, err *rpcError) error {
	if id == nil {
		id = json.RawMessage("null")
	}
	return c.write(message{ID: id, Error: err})
}

func (c *conn) write(m message) error {
	m.Version = "2.0"
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, err := c.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write to the editor: %w", err)
	}
	return nil
}

// notify sends a notification.
func (c *conn) notify(method string, params any) error {
	data, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	return c.write(message{Method: method, Params: data})
}

// call sends a request and decodes its result into out.
func (c *conn) call(ctx context.Context, method string, params, out any) error {
	data, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	answer := make(chan message, 1)
	c.mu.Lock()
	c.next++
	id := strconv.FormatInt(c.next, 10)
	c.pending[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pending, id)
	}()
	if err := c.write(message{ID: json.RawMessage(id), Method: method, Params: data}); err != nil {
		return err
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("%s: the editor refused: %.500s", method, m.Error.Message)
		}
		if err := json.Unmarshal(m.Result, out); err != nil {
			return fmt.Errorf("%s: the editor's answer cannot be read: %w", method, err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answered passes an answer to the request of ours that waits for it. Others are ignored.
func (c *conn) answered(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer := c.pending[string(m.ID)]; answer != nil {
		delete(c.pending, string(m.ID))
		answer <- m
	}
}
