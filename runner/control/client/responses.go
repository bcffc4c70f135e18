package client

import "holon/responses/client"

// Responses returns a client of the responses of sessions and agents that the daemon makes. Its errors are those of
// that protocol.
func (c *Client) Responses() *client.Client { return client.URL(c.http, c.base+"/v1", c.token) }
