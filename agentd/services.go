package agentd

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"holon/agentd/config"
)

// servicesTimeout is how long the services of a container get until they take connections.
const servicesTimeout = time.Minute

// AwaitServices returns when everything that shares the container's network, and each socket of the host that appears
// only while agentd runs, takes connections: turns find it there. It connects and says nothing.
func AwaitServices(ctx context.Context, cfg config.Config) error {
	ctx, cancel := context.WithTimeout(ctx, servicesTimeout)
	defer cancel()
	retry := time.NewTicker(5 * time.Millisecond)
	defer retry.Stop()
	for _, address := range cfg.Commands.ServiceAddresses() {
		network := "tcp"
		if strings.HasPrefix(address, "/") {
			network = "unix"
		}
		for {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err == nil {
				_ = conn.Close() // nothing was sent
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("services: %s takes no connections: %w", address, err)
			case <-retry.C:
			}
		}
	}
	return nil
}
