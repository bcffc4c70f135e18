package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// network is every way out that needs no proxy.
func network() map[string]func() error {
	dial := func(network, address string) func() error {
		return func() error {
			conn, err := net.DialTimeout(network, address, 3*time.Second)
			if err == nil {
				conn.Close()
			}
			return err
		}
	}
	return map[string]func() error{
		"tcp":           dial("tcp4", "1.1.1.1:443"),
		"tcp6":          dial("tcp6", "[2606:4700:4700::1111]:443"),
		"metadata":      dial("tcp4", "169.254.169.254:80"),
		"gateway":       dial("tcp4", "172.17.0.1:22"),
		"private":       dial("tcp4", "10.0.0.1:80"),
		"link-local6":   dial("tcp6", "[fe80::1]:80"),
		"udp":           udp,
		"broadcast":     socket(unix.AF_INET, unix.SOCK_DGRAM, 0, allowBroadcast, broadcast),
		"dns":           dns,
		"raw":           socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"packet":        socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
		"interfaces":    interfaces,
		"host-vsock":    socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0, brief, hypervisor),
		"kernel-crypto": socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		"configure":     socket(unix.AF_INET, unix.SOCK_DGRAM, 0, configure),
		"bluetooth":     socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 1),
		"can":           socket(unix.AF_CAN, unix.SOCK_RAW, 1),
	}
}

func socket(domain, kind, protocol int, uses ...func(fd int) error) func() error {
	return func() error {
		fd, err := unix.Socket(domain, kind, protocol)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for _, use := range uses {
			if err := use(fd); err != nil {
				return err
			}
		}
		return nil
	}
}

func udp() error {
	conn, err := net.Dial("udp4", "8.8.8.8:53")
	if err == nil {
		_, err = conn.Write([]byte("x"))
		conn.Close()
	}
	return err
}

func allowBroadcast(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
}

func broadcast(fd int) error {
	return unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Port: 67, Addr: [4]byte{255, 255, 255, 255}})
}

func dns() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := new(net.Resolver).LookupHost(ctx, "example.com")
	return err
}

// interfaces finds more than a loopback.
func interfaces() error {
	list, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback == 0 {
			return nil
		}
	}
	return unix.ENODEV
}

func brief(fd int) error {
	return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 2})
}

// hypervisor speaks to the hypervisor, past every network namespace.
func hypervisor(fd int) error {
	return unix.Connect(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_HOST, Port: 1})
}

// configure brings an interface up.
func configure(fd int) error {
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

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
