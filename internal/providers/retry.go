package providers

import "time"

// The retry policy of the runtime specification, which agentd keeps and the host shows.
const (
	Retries       = 2                      // attempts beyond the first
	RetryBase     = 500 * time.Millisecond // pause before the first retry; it doubles with each
	RetryMaxPause = 30 * time.Second       // longest pause; a provider that asks for more is not asked again at once
)
