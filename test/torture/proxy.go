package main

import (
	"io"
	"net"
	"os"
	"strings"
	"sync"
)

func engineSocket() string {
	if path, ok := strings.CutPrefix(os.Getenv("DOCKER_HOST"), "unix://"); ok {
		return path
	}
	return "/var/run/docker.sock"
}

// proxy stands before an engine, so that connections can be cut.
type proxy struct {
	network, target string
	listener        net.Listener
	group           sync.WaitGroup

	mu   sync.Mutex
	away bool
	open []net.Conn // and those that have ended
}

func openProxy(l net.Listener, network, target string) *proxy {
	p := &proxy{network: network, target: target, listener: l}
	p.group.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			p.group.Go(func() { p.pass(in) })
		}
	})
	return p
}

// pass carries one connection until either side ends it or it is cut.
func (p *proxy) pass(in net.Conn) {
	defer in.Close()
	out, err := net.Dial(p.network, p.target)
	if err != nil {
		return
	}
	defer out.Close()
	p.mu.Lock()
	p.open = append(p.open, in, out)
	away := p.away
	p.mu.Unlock()
	if away {
		return
	}
	var group sync.WaitGroup
	one := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // a connection that ends is what this is for
		if c, ok := to.(interface{ CloseWrite() error }); ok {
			_ = c.CloseWrite() // an attached stream ends by halves
		}
	}
	group.Go(func() { one(out, in) })
	one(in, out)
	_ = in.Close()
	_ = out.Close()
	group.Wait()
}

// cut breaks every connection and refuses new ones until cut(false).
func (p *proxy) cut(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
	if away {
		for _, c := range p.open {
			_ = c.Close()
		}
		p.open = nil
	}
}

// close ends the proxy, whose socket goes with its listener.
func (p *proxy) close() {
	p.cut(true)
	_ = p.listener.Close()
	p.group.Wait()
}
