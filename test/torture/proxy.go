package main

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
)

// engineSocket is the socket of the engine that rounds use.
func engineSocket() string {
	if path, ok := strings.CutPrefix(os.Getenv("DOCKER_HOST"), "unix://"); ok {
		return path
	}
	return "/var/run/docker.sock"
}

// proxy stands before the engine's socket, so that connections can be cut.
type proxy struct {
	path, target string
	listener     net.Listener
	group        sync.WaitGroup

	mu     sync.Mutex
	away   bool
	closed bool
	open   map[net.Conn]bool
}

func openProxy(path, target string) (*proxy, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	p := &proxy{path: path, target: target, listener: l, open: map[net.Conn]bool{}}
	p.group.Go(p.serve)
	return p, nil
}

func (p *proxy) serve() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.group.Go(func() { p.pass(in) })
	}
}

// pass carries one connection until either side ends it or it is cut.
func (p *proxy) pass(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("unix", p.target)
	if err != nil {
		return
	}
	defer out.Close()
	if !p.keep(in, out) {
		return
	}
	defer p.drop(in, out)
	var group sync.WaitGroup
	one := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // a connection that ends is what this is for
		if c, ok := to.(*net.UnixConn); ok {
			_ = c.CloseWrite() // an attached stream ends by halves
		}
	}
	group.Go(func() { one(out, in) })
	one(in, out)
	_ = in.Close()
	_ = out.Close()
	group.Wait()
}

// keep notes the connections, unless the engine is away.
func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away || p.closed {
		return false
	}
	for _, c := range conns {
		p.open[c] = true
	}
	return true
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.open, c)
	}
}

// cut breaks every connection and refuses new ones until cut(false).
func (p *proxy) cut(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
	if away {
		for c := range p.open {
			_ = c.Close()
		}
	}
}

// close ends the proxy and removes its socket.
func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	_ = p.listener.Close()
	p.group.Wait()
	if err := os.Remove(p.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return
	}
}
