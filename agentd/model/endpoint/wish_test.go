package endpoint

import (
	"net/http"
	"testing"
	"time"

	"holon/test/expect"
)

// What a provider says of when to ask again counts where no header says it.
func TestWishInTheMessage(t *testing.T) {
	for message, want := range map[string]time.Duration{
		"Rate limit reached (TPM): Limit 30000, Used 29500. Please try again in 1.8s. Visit x": 1800 * time.Millisecond,
		"Please try again in 20ms.":                       20 * time.Millisecond,
		"Please try again in 6m0.5s":                      6*time.Minute + 500*time.Millisecond,
		"You have hit your quota. Please retry in 34.07s": 34070 * time.Millisecond,
		"Please retry after 26 seconds.":                  26 * time.Second,
		"Try again in 1 minute":                           time.Minute,
		"Too many requests, wait for 2 hours":             2 * time.Hour,
		"Please try again later":                          0,
		"try again in 5 steps":                            0,
		"retry 3 times":                                   0,
		"the 30s limit was met, try again":                0,
		"try again in 99999999999999999999s":              0,
		"":                                                0,
	} {
		expect.Equal(t, message, wishIn(message), want)
	}
	body := []byte(`{"error":{"message":"slow down, try again in 1.8s"}}`)
	expect.Equal(t, "without a header", statusError(http.StatusTooManyRequests, http.Header{}, body).RetryAfter,
		1800*time.Millisecond)
	expect.Equal(t, "with a header", statusError(http.StatusTooManyRequests, http.Header{"Retry-After": {"35"}},
		body).RetryAfter, 35*time.Second)
	event := EventError(Failure{Code: "rate_limit_exceeded", Message: "try again in 3s"})
	expect.Equal(t, "in a stream", event.RetryAfter, 3*time.Second)
}
