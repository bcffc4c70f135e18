// Package bridge joins Unix sockets on both sides of one connection, such as the standard streams of a program that
// runs in a container.
//
//	client ─▶ socket of Listen ═ stream of the connection ═▶ socket of Dial, of the same name on the other side ─▶ server
//	caller of Open ═════════════ stream of the connection ═▶ function of Serve
//
// Both sides run the same code, and may have sockets of both kinds. Each connection to a socket is a stream of its own
// with flow control (yamux), so that one that is not read holds up no other. A socket of Listen appears once that of
// the other side's Dial answers, and goes with the connection. The other side is hostile: it reaches only what Dial and
// Serve name.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"holon/internal/unixsocket"
)

// Side is what one side has, by names of up to 255 bytes. Sockets are paths.
type Side struct {
	Listen map[string]string // where this side listens
	Dial   map[string]string // what the other side may reach
	// Serve has functions that the other side may call, each call with a stream of its own, which is closed afterwards.
	Serve map[string]func(ctx context.Context, stream io.ReadWriter)
}

// maxStreams bounds the streams that the other side may have open at a time.
const maxStreams = 1024

// How often it is tried again to reach the other side's socket, and to listen.
const (
	firstPause = 2 * time.Millisecond
	mostPause  = 200 * time.Millisecond
)

// What the side that is asked for a socket answers first.
const (
	reached   = 1
	unreached = 0
)

// Bridge is one side of a connection.
type Bridge struct {
	side    Side
	session *yamux.Session
	slots   chan struct{}
	group   sync.WaitGroup
}

// New makes a bridge of a connection, which Run closes. One of both sides is first.
func New(conn io.ReadWriteCloser, side Side, first bool) (*Bridge, error) {
	open := yamux.Server
	if first {
		open = yamux.Client
	}
	session, err := open(conn, settings())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the bridge: %w", err), conn.Close())
	}
	return &Bridge{side: side, session: session, slots: make(chan struct{}, maxStreams)}, nil
}

// Run joins the sockets until the connection or ctx ends, or the other side breaks the protocol.
func (b *Bridge) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer b.group.Wait()
	defer cancel()
	defer b.session.Close()
	context.AfterFunc(ctx, func() { b.session.Close() })
	for name, path := range b.side.Listen {
		b.group.Go(func() { b.listen(ctx, name, path) })
	}
	for {
		stream, err := b.session.AcceptStream()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("the bridge ended: %w", err)
		}
		select {
		case b.slots <- struct{}{}:
			b.group.Go(func() {
				defer func() { <-b.slots }()
				b.answer(ctx, stream)
			})
		default:
			stream.Close()
		}
	}
}

// settings are without limits of time: a container that is paused answers when it goes on.
func settings() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive, c.StreamOpenTimeout, c.LogOutput = false, 0, io.Discard
	c.ConnectionWriteTimeout = math.MaxInt64
	return c
}

// Broken reports whether the connection has ended.
func (b *Bridge) Broken() bool { return b.session.IsClosed() }

// Close ends the connection, and with it Run.
func (b *Bridge) Close() error { return b.session.Close() }

// Open calls a function of the other side. That it has none shows when the stream is read.
func (b *Bridge) Open(name string) (io.ReadWriteCloser, error) {
	stream, err := b.ask(name)
	if err != nil {
		return nil, fmt.Errorf("the bridge ended: %w", err)
	}
	return &call{Stream: stream}, nil
}

// call is a stream to a function, which begins with whether there is one.
type call struct {
	*yamux.Stream
	reached bool
}

func (c *call) Read(p []byte) (int, error) {
	if !c.reached && !isReached(c.Stream) {
		return 0, io.ErrUnexpectedEOF
	}
	c.reached = true
	return c.Stream.Read(p)
}

// listen forwards what connects to a socket, as soon as that of the other side answers.
func (b *Bridge) listen(ctx context.Context, name, path string) {
	var socket *unixsocket.Listener
	for pause := firstPause; socket == nil; pause = min(pause*3/2, mostPause) {
		if b.answers(name) {
			socket, _ = unixsocket.Listen(ctx, path) // the other one that has the path is about to end
		}
		if socket != nil {
			break
		}
		select {
		case <-b.session.CloseChan():
			return
		case <-time.After(pause):
		}
	}
	defer socket.Remove()
	stop := context.AfterFunc(ctx, func() { socket.Close() })
	defer stop()
	go func() { <-b.session.CloseChan(); socket.Close() }()
	for {
		local, err := socket.AcceptUnix()
		if err != nil {
			return
		}
		b.group.Go(func() { b.forward(ctx, name, local) })
	}
}

// answers reports whether the other side's socket takes connections.
func (b *Bridge) answers(name string) bool {
	stream, err := b.ask(name)
	if err != nil {
		return false
	}
	defer stream.Close()
	return isReached(stream)
}

// ask opens a stream to the other side's socket.
func (b *Bridge) ask(name string) (*yamux.Stream, error) {
	stream, err := b.session.OpenStream()
	if err != nil {
		return nil, err
	}
	if _, err := stream.Write(append([]byte{byte(len(name))}, name...)); err != nil {
		stream.Close()
		return nil, err
	}
	return stream, nil
}

func isReached(stream io.Reader) bool {
	var status [1]byte
	_, err := io.ReadFull(stream, status[:])
	return err == nil && status[0] == reached
}

func (b *Bridge) forward(ctx context.Context, name string, local *net.UnixConn) {
	stream, err := b.ask(name)
	if err != nil {
		local.Close()
		return
	}
	b.join(ctx, local, stream, func() bool { return isReached(stream) })
}

// answer connects a stream of the other side with the socket or the function that it asks for.
func (b *Bridge) answer(ctx context.Context, stream *yamux.Stream) {
	var size [1]byte
	name := make([]byte, math.MaxUint8)
	_, err := io.ReadFull(stream, size[:])
	if err == nil {
		_, err = io.ReadFull(stream, name[:size[0]])
	}
	if serve, known := b.side.Serve[string(name[:size[0]])]; err == nil && known {
		if _, err := stream.Write([]byte{reached}); err == nil {
			serve(ctx, stream)
		}
		stream.Close()
		return
	}
	var conn net.Conn
	if path, known := b.side.Dial[string(name[:size[0]])]; err == nil && known {
		conn, err = unixsocket.Dial(ctx, path)
	}
	local, ok := conn.(*net.UnixConn)
	if err != nil || !ok {
		_, _ = stream.Write([]byte{unreached})
		stream.Close()
		return
	}
	_, _ = stream.Write([]byte{reached}) // that it fails shows when more is written
	b.join(ctx, local, stream, func() bool { return true })
}

// restTime bounds how long a local program may take to read what came before the bridge ended.
const restTime = 5 * time.Second

// join copies in both directions until both have come to their end, or the bridge has, whose last words local still
// gets. What begins reports whether there is anything to read from the stream.
func (b *Bridge) join(ctx context.Context, local *net.UnixConn, stream *yamux.Stream, begins func() bool) {
	defer local.Close()
	defer context.AfterFunc(ctx, func() { // a program that answers late, or never, must not hold up the next bridge
		_ = errors.Join(local.CloseRead(), local.SetWriteDeadline(time.Now().Add(restTime))) // or it is closed
	})()
	var out sync.WaitGroup
	out.Go(func() {
		if _, err := io.Copy(stream, local); err != nil { // nothing reads local any more, which may wait for that
			local.Close()
		}
		stream.Close() // the other direction goes on
	})
	var err error
	if !begins() {
		err = io.ErrUnexpectedEOF
	} else {
		_, err = io.Copy(local, rest{stream})
	}
	if err != nil || local.CloseWrite() != nil {
		local.Close() // ends the other direction too
	}
	out.Wait()
}

// rest is a stream that is read to its end: that no more can be asked for, which a read reports with what it has, shows
// by the next one.
type rest struct{ io.Reader }

func (r rest) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		err = nil
	}
	return n, err
}
