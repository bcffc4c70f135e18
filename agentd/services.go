package agentd

import (
	"context"
	"fmt"
	"net"
	"time"
)

// servicesTimeout is how long the services of a container get until they take connections.
const servicesTimeout = time.Minute

// awaitServices returns when everything that shares the container's network takes connections: clients of this server
// find it there. It connects and says nothing.
func (s *Server) awaitServices(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, servicesTimeout)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for _, address := range s.cfg.Commands.ServiceAddresses() {
		for {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
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
