package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"holon/agentd"
	"holon/agentd/config"
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
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	server, err := open(cfg, origins, secrets, newLog(stderr, level))
	if err != nil {
		return err
	}
	return errors.Join(origins.Name(server.Serve(ctx)), server.Close())
}

// open assembles and opens a server for this process.
func open(cfg config.Config, origins config.Origins, secrets *redact.Set, log *slog.Logger) (*agentd.Server, error) {
	if err := hide(); err != nil {
		return nil, err
	}
	if unknown := cfg.RegisterSecrets(os.Environ(), secrets); len(unknown) > 0 {
		log.Warn("values of secret variables are not hidden: they are too short or too long, or begin as times and ids do",
			"variables", strings.Join(unknown, " "))
	}
	parts, err := agentd.Assemble(cfg, os.Environ(), secrets, log)
	if err != nil {
		return nil, fmt.Errorf("start: %w", origins.Name(err))
	}
	server, err := agentd.Open(cfg, parts)
	if err != nil {
		return nil, errors.Join(origins.Name(err), parts.Close())
	}
	return server, nil
}
