package gateway

import "time"

// SetHeaderTimeout sets how long servers of g wait for a header.
func (g *Gateway) SetHeaderTimeout(d time.Duration) { g.headerTimeout = d }
