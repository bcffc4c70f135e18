// Command floor is the least that could do the jobs whose cost test/bench
// measures: a server that only answers, a relay in front of a model that keeps
// nothing but a durable event log, and the model itself.
//
//	floor serve SOCKET               answer every request; end on SIGTERM
//	floor relay SOCKET DIR MODEL     the relay (relay.go)
//	floor proxy SOCKET SERVER        one more hop before the server that listens at a socket
//	floor true                       end at once
//	floor model                      the model, on a loopback port that it prints (model.go)
//
// It is built static, because it is also the only file of the image that the
// bare containers run. It does not belong to the product and checks little.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve("unix", args[1], http.HandlerFunc(ok))
	case len(args) == 4 && args[0] == "relay":
		return serve("unix", args[1], newRelay(args[2], args[3]))
	case len(args) == 3 && args[0] == "proxy":
		return serve("unix", args[1], newProxy(args[2]))
	case len(args) == 1 && args[0] == "true":
		return nil
	case len(args) == 1 && args[0] == "model":
		return serve("tcp", "127.0.0.1:0", newModel())
	}
	return errors.New("usage: floor serve SOCKET | relay SOCKET DIR MODEL | proxy SOCKET SERVER | model | true")
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

// newProxy is the proxy of net/http, which sends on each part of an answer at once. It reads a request whole: its
// server may answer before the last read of the body has returned.
func newProxy(server string) http.Handler {
	proxy := &httputil.ReverseProxy{FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "server"}) },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", server)
		}}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
}

// serve serves h until SIGTERM and prints where. As process 1 of a container
// it would otherwise ignore the signal.
func serve(network, address string, h http.Handler) error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	listener, err := net.Listen(network, address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Println(listener.Addr())
	failed := make(chan error, 1)
	go func() { failed <- http.Serve(listener, h) }()
	select {
	case <-ended:
		return listener.Close()
	case err := <-failed:
		return err
	}
}
