package main

import (
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sockets is what a command must not be able to do with the sockets between agentd and
// the host, although it is the same user.
func sockets() map[string]func() error {
	return map[string]func() error{
		"rename-model":  func() error { return os.Rename("/holon/host/model.sock", "/holon/host/x") },
		"remove-tools":  func() error { return os.Remove("/holon/host/host.sock") },
		"rename-dir":    func() error { return os.Rename("/holon/host", "/holon/x") },
		"open-dir":      func() error { return os.Chmod("/holon/host", 0o777) },
		"link-in-dir":   func() error { return os.Symlink("/tmp", "/holon/host/x") },
		"listen-in-dir": listenInDir,
		"ask-model": func() error {
			return ask("/holon/host/model.sock", "POST /openai/responses HTTP/1.1\r\nHost: model\r\n\r\n")
		},
		"ask-tools": func() error {
			return ask("/holon/host/host.sock",
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"turn_note","arguments":{"text":"x"}}}`+
					"\n")
		},
		"ask-agentd": func() error {
			return ask("/holon/ipc/agent.sock", "GET /health HTTP/1.1\r\nHost: agentd\r\n\r\n")
		},
	}
}

func listenInDir() error {
	l, err := net.Listen("unix", "/holon/host/x.sock")
	if err == nil {
		_ = l.Close()
	}
	return err
}

// ask sends a request, and is ECONNRESET when the connection ends without an answer.
func ask(path, request string) error {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = io.WriteString(conn, request)
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) {
		return unix.ECONNRESET
	}
	return err
}
