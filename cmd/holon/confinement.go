package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"holon/runner"
	"holon/runner/engine"
)

// confinement is what a person, and nobody else, may say about how the container
// is confined.
type confinement struct {
	User string `env:"HOLON_USER"`
}

func (c *confinement) define(f *pflag.FlagSet) {
	f.StringVar(&c.User, "user", "", "`UID:GID` of the container (default yours; root's containers run as "+fmt.Sprintf("%d:%d", runner.DefaultUID, runner.DefaultGID)+")")
}

func (c *confinement) override(given func(string) bool, flags confinement) {
	if given("user") {
		c.User = flags.User
	}
}

// user returns who runs in the container, nil for the default.
func (c *confinement) user() (*engine.User, error) {
	if c.User == "" {
		return nil, nil
	}
	uid, gid, ok := strings.Cut(c.User, ":")
	var ids [2]int
	for i, text := range []string{uid, gid} {
		// The last number means "nobody in particular" to the kernel.
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || !ok || n >= 1<<32-1 {
			return nil, usageError{fmt.Errorf("--user: %q is not UID:GID; write two numbers, for example 1000:1000", runner.OneLine(c.User, 60))}
		}
		ids[i] = int(n)
	}
	return &engine.User{UID: ids[0], GID: ids[1]}, nil
}

// confine puts it into a session.
func (c *confinement) confine(cfg *runner.Config) (err error) {
	cfg.User, err = c.user()
	return err
}
