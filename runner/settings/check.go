package settings

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"holon/internal/duration"
	"holon/internal/providers"
	"holon/state"
)

func checkAgent(s *Settings, _ string) (what, remedy string) {
	if err, ok := errors.AsType[*state.Error](state.CheckNewAgentID(s.Agent)); ok {
		return err.Message, err.Hint
	}
	return "", ""
}

func checkRetryFor(s *Settings, _ string) (what, remedy string) {
	if s.RetryFor < 0 {
		return "is negative", "write a duration such as 30m, or 0s for no wait"
	}
	return "", ""
}

const maxRef = 256

func checkRef(ref string) (what, remedy string) {
	provider, _, ok := providers.SplitRef(ref)
	if !ok || !providers.ValidName(provider) || len(ref) > maxRef || strings.ContainsFunc(ref, func(r rune) bool {
		return provider != providers.Scripted && (r <= ' ' || r == 0x7f || r == ',' || r == '=')
	}) {
		return fmt.Sprintf("%.100q is not a model reference", ref), "write provider/name, for example " + DefaultModel
	}
	return "", ""
}

func checkFallbacks(s *Settings, _ string) (what, remedy string) {
	for _, ref := range s.Fallbacks {
		if what, remedy := checkRef(ref); what != "" {
			return what, remedy
		}
	}
	if len(s.Fallbacks) > 16 {
		return "there are more than 16", "name fewer"
	}
	return "", ""
}

func checkAlternates(s *Settings, _ string) (what, remedy string) {
	for _, dir := range s.AllowAlternates {
		if !filepath.IsAbs(dir) {
			return fmt.Sprintf("%.100q is not an absolute path", dir), "write for example /srv/git/mirror.git/objects"
		}
	}
	return "", ""
}

func checkTimeout(s *Settings, _ string) (what, remedy string) {
	if s.Timeout < time.Second { // a number without a unit is nanoseconds
		return duration.Text(s.Timeout) + " is less than a second", "write for example 30m"
	}
	return "", ""
}

func checkBaseURL(s *Settings, name string) (what, remedy string) {
	raw := s.provider(name).BaseURL
	remedy = "write for example https://host/v1, or unix:///socket:/v1"
	if rest, ok := strings.CutPrefix(raw, "unix://"); ok {
		if path, prefix, _ := strings.Cut(rest, ":"); !strings.HasPrefix(path, "/") ||
			prefix != "" && !strings.HasPrefix(prefix, "/") {
			return "names no socket by an absolute path", remedy
		}
		return "", ""
	}
	u, err := url.Parse(raw)
	switch { // errors do not show the URL, which may contain a password
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "is not an http, https or unix URL", remedy
	case u.User != nil:
		return "holds a user name or password", "give the key as a credential"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "has a query or a fragment", remedy
	}
	return "", ""
}

var (
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	omitPattern     = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
)

func checkVariable(s *Settings, name string) (what, remedy string) {
	if v := s.provider(name).Credential.Env; !variablePattern.MatchString(v) {
		return "is not the name of a variable", "write the variable's name, not the key"
	}
	return "", ""
}

func checkProfile(s *Settings, name string) (what, remedy string) {
	if p := s.provider(name).Credential.Profile; !providers.ValidName(p) {
		return fmt.Sprintf("%.100q is not the name of a profile", p), "use lower-case letters, digits, _, - and ."
	}
	return "", ""
}

func checkCommand(s *Settings, name string) (what, remedy string) {
	command := s.provider(name).Credential.Command
	if len(command) == 0 || len(command) > 64 || command[0] == "" || slices.ContainsFunc(command, func(a string) bool {
		return len(a) > 4096 || strings.ContainsRune(a, 0)
	}) {
		return "is not a command", `write a list of program and arguments, for example ["pass", "show", "acme"]`
	}
	return "", ""
}

func checkOmit(s *Settings, name string) (what, remedy string) {
	return checkWords(s.provider(name).Omit, "write for example stream_options,parallel_tool_calls,strict")
}

func checkAllowHosted(s *Settings, name string) (what, remedy string) {
	return checkWords(s.provider(name).AllowHosted, "write for example web_search,fetch_urls")
}

func checkWords(list []string, remedy string) (string, string) {
	for _, k := range list {
		if !omitPattern.MatchString(k) {
			return fmt.Sprintf("%.60q is not a key of a request", k), remedy
		}
	}
	return "", ""
}
