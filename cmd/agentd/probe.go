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
// when the server takes turns, 1 when it answers that it does not, 4 when it gives
// no answer.
func probe(ctx context.Context, args []string, stdout io.Writer) error {
	cfg := config.Default()
	timeout := 5 * time.Second
	_, err := configure("probe", &cfg, args, stdout, func(fs *flag.FlagSet) func() config.Problems {
		fs.DurationVar(&timeout, "timeout", timeout, "time to wait for the answer")
		return func() (p config.Problems) {
			if cfg.Server.Listen = ""; cfg.Server.Socket == "" { // a probe does not listen
				p = append(p, config.Problem{Setting: "--socket", What: "is empty", Remedy: "name the server's socket"})
			}
			if timeout <= 0 {
				p = append(p, config.Problem{Setting: "--timeout", What: fmt.Sprintf("%v is not positive", timeout),
					Remedy: "write a duration such as 5s"})
			}
			return p
		}
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	health, err := client.Unix(cfg.Server.Socket).Health(ctx)
	if err != nil {
		return noAnswer{fmt.Errorf("probe %s: %w", cfg.Server.Socket, err)}
	}
	if err := json.NewEncoder(stdout).Encode(health); err != nil {
		return err
	}
	if health.Status != turns.HealthReady {
		return exitError(exitFailed)
	}
	return nil
}

// noAnswer is the error of a probe without an answer of the server.
type noAnswer struct{ error }

func (e noAnswer) Unwrap() error { return e.error }
