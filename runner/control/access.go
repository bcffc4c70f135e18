package control

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strconv"

	"holon/internal/httpserver"
	"holon/runner/access"
	"holon/state"
)

// Codes of errors (*state.Error) of Access and tokens.
const (
	CodeInvalidAccess state.Code = "invalid_access" // Param names the flag
	CodeInvalidToken             = access.CodeInvalidToken
)

// Mode is from where the control plane can be reached over TCP.
type Mode string

// The modes. Without one there is no TCP port.
const (
	ModeLocal   Mode = "local"   // loopback
	ModeTunnel  Mode = "tunnel"  // loopback, at the end of a tunnel that others can enter
	ModeLAN     Mode = "lan"     // a given address, or all
	ModeTailnet Mode = "tailnet" // a given address
)

// Auth is whether TCP needs a token. The Unix socket never does.
type Auth string

// The modes of authentication. Auto and required differ in where the token may
// come from: auto makes one and keeps it in a file when none is given.
const (
	authAuto     Auth = "auto"
	authRequired Auth = "required"
	authDisabled Auth = "disabled" // on loopback only, and not at the end of a tunnel
)

// DefaultPort is the TCP port unless one is given.
const DefaultPort = 7878

// Access configures how the control plane is reached in addition to its Unix socket. The zero Access has no TCP port.
type Access struct {
	Mode      Mode
	Host      string // to listen on; "": 127.0.0.1, which lan and tailnet don't take
	Port      int    // 0: DefaultPort
	Listen    string // host:port, instead of Host and Port; a port 0 is any free one
	Advertise string // URL under which others reach it, "": as it listens
	Auth      Auth   // "": auto
	Token     string // of the operator; "": none is given

	Tokens *access.Tokens // of others; nil: there are none
}

// Check says what is wrong with a, as a *state.Error with CodeInvalidAccess or
// CodeInvalidToken that names the flag, and fills in what was left out.
func (a Access) Check() (Access, error) {
	if a.Listen != "" && a.Mode == "" {
		a.Mode = ModeLocal
	}
	if a.Auth == "" {
		a.Auth = authAuto
	}
	for _, check := range []func() error{a.checkMode, a.checkAddress, a.checkAuth, a.checkAdvertise} {
		if err := check(); err != nil {
			return a, err
		}
	}
	return a, nil
}

// Enabled reports whether there is to be a TCP port.
func (a Access) Enabled() bool { return a.Mode != "" || a.Listen != "" }

// NeedsToken reports whether a token must be there before Listen. a was checked.
func (a Access) NeedsToken() bool { return a.Enabled() && a.Auth != authDisabled }

func badAccess(flag, message, hint string) error {
	return &state.Error{Code: CodeInvalidAccess, Param: flag, Message: message, Hint: hint}
}

func (a Access) checkMode() error {
	switch a.Mode {
	case "":
		for _, f := range []struct {
			flag  string
			given bool
		}{{"--host", a.Host != ""}, {"--port", a.Port != 0}, {"--advertise", a.Advertise != ""},
			{"--tokens-file", a.Tokens != nil}} {
			if f.given {
				return badAccess(f.flag, "is for a TCP port", "add --access local, tunnel, lan or tailnet")
			}
		}
	case ModeLocal, ModeTunnel, ModeLAN, ModeTailnet:
	default:
		return badAccess("--access", fmt.Sprintf("%.40q is not a mode of access", a.Mode),
			"use local, tunnel, lan or tailnet")
	}
	return nil
}

// checkAddress checks the form of the address, then the address against the mode.
func (a Access) checkAddress() error {
	if a.Mode == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(a.address())
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		return badAccess("--listen", fmt.Sprintf("%.200q is not HOST:PORT", a.address()),
			"write for example 127.0.0.1:7878")
	}
	if a.Listen != "" && (a.Host != "" || a.Port != 0) {
		return badAccess("--listen", "--listen is given, and --host or --port as well", "use one of them")
	}
	return a.checkReach(host, net.ParseIP(host))
}

// checkReach checks host, which is ip if that is not nil, against the mode.
func (a Access) checkReach(host string, ip net.IP) error {
	switch a.Mode {
	case ModeLocal, ModeTunnel:
		if !ip.IsLoopback() && host != "localhost" {
			return badAccess("--host", fmt.Sprintf("%.100q is not a loopback address, and --access %s needs one", host,
				a.Mode), "leave --host out, or use --access lan or tailnet")
		}
	case ModeLAN, ModeTailnet:
		if a.Host == "" && a.Listen == "" {
			return badAccess("--host", fmt.Sprintf("--access %s needs the address to listen on", a.Mode),
				"add --host ADDRESS")
		}
		if a.Mode == ModeTailnet && (host == "" || ip != nil && ip.IsUnspecified()) {
			return badAccess("--host", "all addresses are more than the tailnet",
				"give this machine's address in the tailnet")
		}
	}
	return nil
}

func (a Access) checkAuth() error {
	switch a.Auth {
	case authAuto:
	case authRequired:
		if a.Mode != "" && a.Token == "" {
			return badAccess("--token-file", "a token is required and none is given",
				"give --token-file FILE, or set HOLON_CONTROL_TOKEN")
		}
	case authDisabled:
		if a.Mode != "" && a.Mode != ModeLocal {
			return badAccess("--access", fmt.Sprintf("--access %s is never without a token", a.Mode),
				"leave the authentication on")
		}
	default:
		return badAccess("HOLON_CONTROL_AUTH_MODE", fmt.Sprintf("%.40q is not a mode of authentication", a.Auth),
			"use auto, required or disabled")
	}
	if a.Token != "" {
		return access.Refuse("token", "the token", httpserver.CheckToken(a.Token, access.MinToken))
	}
	return nil
}

func (a Access) checkAdvertise() error {
	if a.Advertise == "" {
		return nil
	}
	u, err := url.Parse(a.Advertise)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" ||
		u.Fragment != "" || u.User != nil {
		return badAccess("--advertise", fmt.Sprintf("others cannot use the URL %.200q", a.Advertise),
			"give one like https://holon.example.org")
	}
	return nil
}

func (a Access) address() string {
	if a.Listen != "" {
		return a.Listen
	}
	host, port := a.Host, a.Port
	if host == "" {
		host = "127.0.0.1"
	}
	if port == 0 {
		port = DefaultPort
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// ReadToken reads a token out of a file that only its owner may use. Errors are *state.Error with CodeInvalidToken; one
// that wraps fs.ErrNotExist says that there is no file.
func ReadToken(path string) (string, error) {
	token, err := httpserver.ReadToken(path, access.MinToken)
	return token, access.Refuse("--token-file", fmt.Sprintf("the token file %.200q", path), err)
}

// KeepToken reads the token in the file at path, which it makes with a new
// random one if there is none. Its directory must exist.
func KeepToken(path string) (string, error) {
	token, err := ReadToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	token = base64.RawURLEncoding.EncodeToString(random)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return ReadToken(path) // another process was faster
	}
	if err == nil {
		_, err = f.WriteString(token + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return "", &state.Error{Code: CodeInvalidToken, Param: "--token-file",
			Message: fmt.Sprintf("the token file %.200q can't be made", path),
			Hint:    "give a directory that can be written to", Err: err}
	}
	return token, nil
}
