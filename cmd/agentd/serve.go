package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"holon/agentd"
	"holon/agentd/config"
	"holon/agentd/pod"
	"holon/agentd/privilege"
	"holon/internal/redact"
)

// serve runs the server until ctx ends.
func serve(ctx context.Context, args []string, secrets *redact.Set, stdout, stderr io.Writer) error {
	cfg := config.Default()
	debug := false
	origins, err := configure("serve", &cfg, args, stdout, func(fs *flag.FlagSet) func() config.Problems {
		fs.BoolVar(&debug, "debug", debug, "log what only a developer wants to know")
		return func() config.Problems {
			_, err := cfg.Server.Token()
			p, _ := errors.AsType[config.Problems](err)
			return p
		}
	})
	if err != nil {
		return err
	}
	if p := ofContainer(&cfg, "/holon"); p != nil {
		return origins.Name(p)
	}
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	users, err := separate(cfg)
	if err != nil {
		return err
	}
	log := newLog(stderr, level)
	if users == nil && os.Geteuid() == 0 {
		log.Warn("commands run as root, like agentd, and can change its files", "remedy", "give --command-user")
	}
	if err := agentd.AwaitServices(ctx, cfg); err != nil {
		return err
	}
	server, err := open(cfg, users, origins, secrets, log)
	if err != nil {
		return err
	}
	return errors.Join(origins.Name(server.Serve(ctx)), server.Close())
}

// ofContainer refuses paths in the directory of containers on a machine that has none: root would make them there.
func ofContainer(cfg *config.Config, dir string) (p config.Problems) {
	if _, err := os.Stat(dir); err == nil || os.Getpid() == 1 {
		return nil
	}
	for _, at := range [][2]string{{"--socket", cfg.Server.Socket}, {"--output-dir", cfg.Dirs.Output},
		{"--state-dir", cfg.Dirs.State}, {"--workspace-dir", cfg.Dirs.Workspace}} {
		if strings.HasPrefix(at[1], dir+"/") {
			p = append(p, config.Problem{Setting: at[0], What: at[1] + " is a path of containers, and " + dir + " is not here",
				Remedy: "name another path"})
		}
	}
	return p
}

// separate makes agentd and its commands the users that cfg names. It may run this
// program anew.
func separate(cfg config.Config) (*privilege.Users, error) {
	server, command, err := cfg.Users.IDs()
	if err != nil || command == nil {
		return nil, err
	}
	if err := os.Mkdir(cfg.Dirs.Workspace, 0o700); err == nil { // what was there is the commands' already
		if err := os.Chown(cfg.Dirs.Workspace, command.UID, command.GID); err != nil {
			return nil, fmt.Errorf("give --workspace-dir to the user %s: %w", command, err)
		}
	}
	var dirs []string
	for _, socket := range []string{cfg.Server.Socket, cfg.Models.Gateway(), cfg.Tools.HostMCP(), cfg.Commands.Proxy()} {
		if socket != "" {
			dirs = append(dirs, filepath.Dir(socket))
		}
	}
	users, err := privilege.Start(server, *command, []string{cfg.Dirs.Output, cfg.Dirs.State}, dirs)
	if err != nil {
		return nil, fmt.Errorf("separate agentd from its commands: %w", err)
	}
	return users, nil
}

// open assembles and opens a server for this process.
func open(cfg config.Config, users *privilege.Users, origins config.Origins, secrets *redact.Set,
	log *slog.Logger) (*agentd.Server, error) {
	if err := hide(); err != nil {
		return nil, err
	}
	if unknown := cfg.RegisterSecrets(os.Environ(), secrets); len(unknown) > 0 {
		log.Warn("values of secret variables are not hidden: they are too short or too long, or begin as times and ids do",
			"variables", strings.Join(unknown, " "))
	}
	parts, err := agentd.Assemble(cfg, users, os.Environ(), secrets, log)
	if err != nil {
		return nil, fmt.Errorf("start: %w", origins.Name(err))
	}
	server, err := agentd.Open(cfg, parts)
	if err != nil {
		return nil, errors.Join(origins.Name(err), parts.Close())
	}
	return server, nil
}

// hide keeps what this process holds, keys in its environment for one, from the
// commands that it runs as the same user: they can neither trace it nor read its
// memory, environment or descriptors. Only process 1, or the only program of process 1, hides: it is
// alone in its container, and no program outside has to recognize it by these.
func hide() error {
	if os.Getpid() != 1 && os.Getenv(pod.EnvHeld) == "" {
		return nil
	}
	return hideAlways()
}

// hideAlways is hide for a program that no one outside has to recognize.
func hideAlways() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide from commands: %w", err)
	}
	return nil
}
