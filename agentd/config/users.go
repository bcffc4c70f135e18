package config

import (
	"errors"
	"fmt"

	"holon/agentd/privilege"
)

// Users says who agentd and its commands are.
type Users struct {
	Server  string `env:"HOLON_SERVER_USER" envDefault:"65533"`
	Command string `env:"HOLON_COMMAND_USER"`
}

func (u *Users) validate(p *Problems) {
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
func (u *Users) IDs() (server privilege.User, command *privilege.User, err error) {
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
