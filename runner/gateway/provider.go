package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// AuthStyle says how a provider wants its key.
type AuthStyle string

// The styles of Provider.Auth.
const (
	AuthBearer  AuthStyle = "bearer"    // Authorization: Bearer KEY
	AuthXAPIKey AuthStyle = "x-api-key" // x-api-key: KEY
	AuthChatGPT AuthStyle = "chatgpt"   // as bearer, and Chatgpt-Account-Id with the account that the token is for
	AuthNone    AuthStyle = "none"      // no key: a server of one's own
)

// Route is one call that a container may make.
type Route struct {
	Method string // upper case
	Path   string // appended to Provider.BaseURL; begins with '/', no escapes, no query
}

// Provider is one endpoint of the host.
type Provider struct {
	// BaseURL is what the path of a route is appended to:
	// https://host[:port][/path], http://…, or unix:///socket[:/path].
	BaseURL string

	// Credential gives the key; it is required unless Auth is AuthNone.
	Credential Credential

	// KeyName is where a person finds that key, such as a variable; for Lease.Trouble.
	KeyName string
	// KeyCommand stores another key in that place; "" where no command does.
	KeyCommand string

	// Auth and Routes may be left out for the providers this package knows:
	// openai and anthropic.
	Auth   AuthStyle
	Routes []Route

	// AllowHosted names what the provider may do itself for a turn: types of its own
	// tools (web_search), further keys at the top of a request, and fetchURLs.
	AllowHosted []string

	// Proxy chooses the proxy of the host for a request, as in http.Transport;
	// nil means none.
	Proxy func(*http.Request) (*url.URL, error)
}

// known returns how a provider is called by its own clients.
func known(name string) Provider {
	switch name {
	case "openai":
		return Provider{Auth: AuthBearer, Routes: []Route{{http.MethodPost, "/responses"}}}
	case "anthropic":
		return Provider{Auth: AuthXAPIKey, Routes: []Route{{http.MethodPost, "/v1/messages"}}}
	}
	return Provider{Auth: AuthBearer}
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
	namePattern   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}$`)
	hostedPattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	pathPattern   = regexp.MustCompile(`^(/[a-zA-Z0-9_.~:-]+)+$`)
)

// complete fills in the defaults of the provider called name and checks all.
func (p Provider) complete(name string) (Provider, error) {
	if !namePattern.MatchString(name) {
		return p, &Error{Code: CodeInvalidProvider, Param: "providers",
			Message: fmt.Sprintf("invalid provider name %.80q", name),
			Hint:    "use 1 to 64 letters, digits, '_', '.' or '-'"}
	}
	defaults := known(name)
	if p.Auth == "" {
		p.Auth = defaults.Auth
	}
	if p.Routes == nil {
		p.Routes = defaults.Routes
	}
	if len(p.Routes) == 0 {
		return p, invalid(name, "routes", "list the method and path of each call to allow", "provider %s has no routes",
			name)
	}
	for i, route := range p.Routes {
		if !slices.Contains([]string{http.MethodPost, http.MethodGet}, route.Method) {
			return p, invalid(name, fmt.Sprintf("routes[%d].method", i), "use GET or POST",
				"method %.40q can't be allowed", route.Method)
		}
		if !pathPattern.MatchString(route.Path) || path.Clean(route.Path) != route.Path {
			return p, invalid(name, fmt.Sprintf("routes[%d].path", i), "write a plain path such as /responses",
				"path %.100q can't be allowed", route.Path)
		}
	}
	if len(p.AllowHosted) > maxHosted || slices.ContainsFunc(p.AllowHosted, func(word string) bool {
		return !hostedPattern.MatchString(word)
	}) {
		return p, invalid(name, "allow_hosted", "write for example web_search",
			"allow_hosted has more than %d words, or one that is none", maxHosted)
	}
	return p, p.checkCredential(name)
}

const maxHosted = 32

func (p Provider) checkCredential(name string) error {
	if !slices.Contains([]AuthStyle{AuthBearer, AuthXAPIKey, AuthChatGPT, AuthNone}, p.Auth) {
		return invalid(name, "auth", "use bearer, x-api-key, chatgpt or none", "authentication style %.40q is unknown",
			string(p.Auth))
	}
	if p.Auth == AuthNone {
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
		return &Error{Code: CodeMissingCredentials, Param: "providers." + name + ".api_key",
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
