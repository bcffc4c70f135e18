package gateway

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"holon/internal/pattern"
	"holon/internal/providers"
	"holon/state"
)

// Provider is one endpoint of the host.
type Provider struct {
	// BaseURL is what the paths of the contract are appended to:
	// https://host[:port][/path], http://…, or unix:///socket[:/path].
	BaseURL string

	// Contract says which calls a container may make and what they may ask for; "" is that of the built-in provider of
	// the name.
	Contract providers.Contract
	// Auth is how the key is sent; "" is the contract's.
	Auth providers.Auth

	// Credential gives the key; it is required unless Auth is providers.AuthNone.
	Credential Credential

	// KeyName is where a person finds that key, such as a variable; for Lease.Trouble.
	KeyName string
	// KeyCommand stores another key in that place; "" where no command does.
	KeyCommand string

	// AllowHosted names what the provider may do itself for a turn: types of its own
	// tools (web_search), further keys at the top of a request, and fetchURLs.
	AllowHosted []string

	// Proxy chooses the proxy of the host for a request, as in http.Transport;
	// nil means none.
	Proxy func(*http.Request) (*url.URL, error)
}

// passedHeaders are the headers of a request that go on to the provider.
// Everything else stays here, credentials and client telemetry above all.
func passedHeaders() []string {
	return []string{"Accept", "Anthropic-Version", "Anthropic-Beta"}
}

// returnedHeaders are the headers of an answer that go back.
func returnedHeaders() []string {
	return []string{"Content-Type", "Retry-After", "Retry-After-Ms", "X-Request-Id", "Request-Id", "X-Should-Retry"}
}

var (
	namePattern   = pattern.Lazy(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}$`)
	hostedPattern = pattern.Lazy(`^[a-z][a-z0-9_]{0,63}$`)
)

// complete fills in the defaults of the provider called name and checks all.
func (p Provider) complete(name string) (Provider, error) {
	if !namePattern().MatchString(name) {
		return p, &state.Error{Code: CodeInvalidProvider, Param: "providers",
			Message: fmt.Sprintf("invalid provider name %.80q", name),
			Hint:    "use 1 to 64 letters, digits, '_', '.' or '-'"}
	}
	if p.Contract == "" {
		builtin, _ := providers.Find(name)
		p.Contract = builtin.Contract
	}
	if !p.Contract.Known() {
		return p, invalid(name, "contract", "name the contract of the provider", "the contract %.60q is unknown",
			p.Contract)
	}
	p.Auth = cmp.Or(p.Auth, p.Contract.Auth())
	if len(p.AllowHosted) > maxHosted || slices.ContainsFunc(p.AllowHosted, func(word string) bool {
		return !hostedPattern().MatchString(word)
	}) {
		return p, invalid(name, "allow_hosted", "write for example web_search",
			"allow_hosted has more than %d words, or one that is none", maxHosted)
	}
	return p, p.checkCredential(name)
}

const maxHosted = 32

func (p Provider) checkCredential(name string) error {
	known := []providers.Auth{providers.AuthBearer, providers.AuthXAPIKey, providers.AuthChatGPT, providers.AuthNone}
	if !slices.Contains(known, p.Auth) {
		return invalid(name, "auth", "use bearer, x-api-key, chatgpt or none", "authentication style %.40q is unknown",
			string(p.Auth))
	}
	if p.Auth == providers.AuthNone {
		return nil
	}
	static, ok := p.Credential.(Secret)
	if !ok && p.Credential != nil {
		return nil // it is asked when it is needed
	}
	return checkKey(name, static)
}

// checkKey says what is wrong with a key.
func checkKey(name string, key Secret) error {
	if key.IsZero() {
		variable := strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_API_KEY"
		return &state.Error{Code: CodeMissingCredentials, Param: "providers." + name + ".api_key",
			Message: fmt.Sprintf("no API key for provider %s", name), Hint: "set " + variable}
	}
	for i, c := range []byte(key.Reveal()) {
		if c <= ' ' || c > '~' {
			return invalid(name, "api_key", "copy the key again, without spaces or line ends",
				"the API key of provider %s has a character at offset %d that no key has", name, i)
		}
	}
	return nil
}
