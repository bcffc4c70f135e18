package gateway

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/url"
	"time"

	"holon/internal/providers"
)

const (
	maxAnswerHeader = 64 << 10
	dialTimeout     = 15 * time.Second
)

// upstream is a checked provider and the connections to it.
type upstream struct {
	name      string
	base      string // scheme://host[/path], no slash at the end
	socket    string // path, "" for the network
	auth      providers.Auth
	keys      *keyring
	keyName   string
	keyStore  string // command that stores another key there
	transport *http.Transport
}

func newUpstream(name string, p Provider) (*upstream, error) {
	base, socket, fault := providers.ParseBaseURL(p.BaseURL)
	if fault != "" { // the URL itself is not shown: people put passwords in them
		return nil, invalid(name, "base_url", "write https://host/path or unix:///socket:/path",
			"the base URL of provider %s %s", name, fault)
	}
	source := p.Credential
	if p.Auth == providers.AuthNone {
		source = nil
	}
	return &upstream{
		name:      name,
		base:      base,
		socket:    socket,
		auth:      p.Auth,
		keys:      newKeyring(name, source),
		keyName:   p.KeyName,
		keyStore:  p.KeyCommand,
		transport: newTransport(socket, p.Proxy),
	}, nil
}

// newTransport returns a transport to the socket, or to the network where
// socket is empty. It has no time limit for an answer: models think for long,
// and the client that waits can go away.
func newTransport(socket string, proxy func(*http.Request) (*url.URL, error)) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	t := &http.Transport{
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // what comes is passed on as it is
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        30 * time.Second,
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: maxAnswerHeader,
		ReadBufferSize:         bufferSize,
		WriteBufferSize:        bufferSize,
		Proxy:                  proxy,
	}
	if socket != "" {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}
	}
	return t
}

// request makes the provider's request from the container's: a new one, so
// that nothing passes that is not named here.
func (u *upstream) request(ctx context.Context, t target, from *http.Request, key Secret, body []byte) (
	*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, name := range passedHeaders() {
		value := from.Header.Get(name)
		if name == "Anthropic-Beta" && value != providers.BindingBeta { // others switch features on
			continue
		}
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	req.Header.Set("Content-Type", "application/json") // as which the body was read
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "holon-gateway")
	switch u.auth {
	case providers.AuthBearer:
		req.Header.Set("Authorization", "Bearer "+key.Reveal())
	case providers.AuthChatGPT:
		req.Header.Set("Authorization", "Bearer "+key.Reveal())
		if account := providers.ChatGPTAccount(key.Reveal()); account != "" {
			req.Header.Set("Chatgpt-Account-Id", account)
		}
	case providers.AuthXAPIKey:
		req.Header.Set("X-Api-Key", key.Reveal())
	}
	return req, nil
}
