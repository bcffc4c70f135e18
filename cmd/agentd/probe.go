package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"time"

	"holon/agentd/config"
	"holon/responses/client"
	"holon/responses/turns"
)

// probe asks a server how it is. It is the health check of a container: exit 0
// when the server takes turns, 1 when it answers that it does not.
func probe(ctx context.Context, args []string, stdout io.Writer) error {
	cfg := config.Default()
	timeout := 5 * time.Second
	err := configure("probe", &cfg, args, stdout, func(fs *flag.FlagSet) func() {
		fs.DurationVar(&timeout, "timeout", timeout, "time to wait for the answer")
		return func() {}
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	health, err := client.Unix(cfg.Server.Socket).Health(ctx)
	if err != nil {
		return fmt.Errorf("probe %s: %w", cfg.Server.Socket, err)
	}
	if err := json.NewEncoder(stdout).Encode(health); err != nil {
		return err
	}
	if health.Status != turns.HealthReady {
		return exitError(exitFailed)
	}
	return nil
}
