package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"holon/agentd/privilege"
	"holon/internal/httpserver"
	"holon/skills"
)

// server says where agentd listens.
type server struct {
	Socket    string `env:"HOLON_SOCKET" envDefault:"/holon/ipc/agent.sock"`
	Listen    string `env:"HOLON_LISTEN"`
	TokenFile string `env:"HOLON_TOKEN_FILE"`
}

// validate refuses, among others, a TCP address that other machines could reach
// without a token: a client of agentd can run commands.
func (s *server) validate(p *Problems) {
	socketFits(p, "--socket", s.Socket)
	if s.Listen == "" {
		return
	}
	host, _, err := net.SplitHostPort(s.Listen)
	if err != nil {
		p.add("--listen", fmt.Sprintf("%q is not host:port", s.Listen), "write for example 127.0.0.1:8080")
		return
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) && s.TokenFile == "" {
		p.add("--listen", fmt.Sprintf("%s can be reached from other machines", s.Listen),
			"listen on 127.0.0.1, or give --token-file")
	}
}

// Serves reports whether there is an address to serve on. Without one, the
// process runs a single turn.
func (s *server) Serves() bool { return s.Socket != "" || s.Listen != "" }

// minToken is how long a bearer token must be, in bytes. 32 of base64 or hex are at least 128 bits.
const minToken = 32

// Token reads the bearer token that TCP clients must send, "" for none.
func (s *server) Token() (string, error) {
	if s.TokenFile == "" {
		return "", nil
	}
	token, err := httpserver.ReadToken(s.TokenFile, minToken)
	if wrong, ok := errors.AsType[*httpserver.TokenError](err); ok {
		what := wrong.What
		if reason, ok := errors.AsType[*fs.PathError](err); ok {
			what += ": " + reason.Err.Error() // the flag names the file
		}
		return "", Wrong("--token-file", what, wrong.Remedy)
	}
	return token, err
}

// webSocket bounds connections. The protocol settles it, not the operator; tests
// shorten it.
type webSocket struct {
	Lifetime time.Duration // of a connection
	Ping     time.Duration // silence after which a peer is asked whether it is there
}

// dirs are the directories that agentd works in.
type dirs struct {
	Input     string `env:"HOLON_INPUT_DIR" envDefault:"/holon/input"`
	Output    string `env:"HOLON_OUTPUT_DIR" envDefault:"/holon/output"`
	Shown     string `env:"HOLON_SHOWN_OUTPUT_DIR"` // what responses call Output; "": by its name
	State     string `env:"HOLON_STATE_DIR" envDefault:"/holon/state"`
	Workspace string `env:"HOLON_WORKSPACE_DIR" envDefault:"/holon/workspaces"`
	Skills    string `env:"HOLON_SKILLS_DIR" envDefault:"/holon/skills"`
	Anchors   string `env:"HOLON_ANCHORS_DIR" envDefault:"/holon/anchors"`
}

// validate also makes the directories absolute.
func (d *dirs) validate(p *Problems) {
	for _, at := range []struct {
		flag string
		dir  *string
	}{{"--input-dir", &d.Input}, {"--output-dir", &d.Output}, {"--state-dir", &d.State},
		{"--workspace-dir", &d.Workspace}, {"--skills-dir", &d.Skills}, {"--anchors-dir", &d.Anchors}} {
		abs, err := filepath.Abs(*at.dir)
		switch {
		case *at.dir == "":
			p.add(at.flag, "is empty", "give a directory")
		case err != nil:
			p.add(at.flag, err.Error(), "give an absolute path")
		default:
			*at.dir = abs
			if info, err := os.Stat(abs); err == nil && !info.IsDir() {
				p.add(at.flag, fmt.Sprintf("%s is not a directory", abs),
					"name a directory or a path that does not exist yet")
			}
		}
	}
}

// agent says whose instructions and skills count.
type agent struct {
	Home     string `env:"HOLON_AGENT_HOME" envDefault:"/holon"`
	Role     string `env:"HOLON_AGENT_ROLE" envDefault:"default"`
	UserHome string `env:"HOME"`
}

func (a *agent) validate(p *Problems) {
	if !skills.Role(a.Role).Known() {
		p.add("--agent-role", fmt.Sprintf("%q is not a role", a.Role), "choose default, named or child")
	}
	if a.Home != "" && !filepath.IsAbs(a.Home) {
		p.add("--agent-home", fmt.Sprintf("%q is not an absolute path", a.Home),
			"give an absolute path, or nothing for none")
	}
}

// users are the users of agentd and its commands.
type users struct {
	Server  string `env:"HOLON_SERVER_USER" envDefault:"65533"`
	Command string `env:"HOLON_COMMAND_USER"`
}

func (u *users) validate(p *Problems) {
	server, command, err := u.IDs()
	if problems, ok := errors.AsType[Problems](err); ok {
		*p = append(*p, problems...)
		return
	}
	switch {
	case command == nil:
	case command.UID == 0:
		p.add("--command-user", "is root, which could become any user", "leave it out, or choose another user")
	case server.UID == 0 || server.UID == command.UID || server.GID == command.GID:
		p.add("--server-user", fmt.Sprintf("%s is root, or shares a number with %s", server, command),
			"choose a user and a group of its own")
	}
}

// IDs returns the two users. command is nil if commands are agentd's user. The
// error is Problems.
func (u *users) IDs() (server privilege.User, command *privilege.User, err error) {
	if u.Command == "" {
		return server, nil, nil
	}
	const remedy = "give numbers, for example 65532:65532"
	if server, err = privilege.ParseUser(u.Server); err != nil {
		return server, nil, Wrong("--server-user", err.Error(), remedy)
	}
	user, err := privilege.ParseUser(u.Command)
	if err != nil {
		return server, nil, Wrong("--command-user", err.Error(), remedy)
	}
	return server, &user, nil
}
