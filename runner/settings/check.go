package settings

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"holon/internal/duration"
	"holon/internal/pattern"
	"holon/internal/providers"
	"holon/runner/engine"
	"holon/runner/service"
	"holon/runner/uidpool"
	"holon/state"
)

// check returns why a value of the right type is invalid, and how to write it; "" for a valid one.
func (k *key) check(v reflect.Value) (what, remedy string) {
	switch p := v.Interface().(type) {
	case []string:
		return k.checkList(p)
	case time.Duration:
		if k.name == "timeout" && p < time.Second { // a number without a unit is nanoseconds
			return duration.Text(p) + " is less than a second", "write for example 30m"
		}
	case Size:
		if n, _ := p.Bytes(); k.name == "memory" && n > 0 && n < engine.MinMemory {
			return fmt.Sprintf("%s is less than a container needs", p), "use 64m or more"
		}
	case float64:
		return checkCPUs(p)
	case string:
		return k.checkText(p)
	}
	return "", ""
}

func (k *key) checkText(text string) (what, remedy string) {
	switch k.name {
	case "model.default":
		return checkRef(text)
	case "agent.default":
		if err, ok := errors.AsType[*state.Error](state.CheckNewAgentID(text)); ok {
			return err.Message, err.Hint
		}
	case "container_uids":
		if _, _, err := uidpool.Parse(text); text != "" && err != nil {
			return err.Error(), "leave it out for the default"
		}
	case "ledger":
		return checkLedger(text)
	case "store":
		return checkStore(text)
	case "kubernetes_pod":
		return checkPaths([]string{text}, "write for example /etc/holon/pod.yaml")
	case "control.tokens_file":
		return checkPaths([]string{text}, "write for example /home/me/.config/holon/tokens")
	case "providers.*.base_url":
		return checkBaseURL(text)
	case "providers.*.credential.env":
		if !variablePattern().MatchString(text) {
			return "is not the name of a variable", "write the variable's name, not the key"
		}
	case "providers.*.credential.profile":
		if !providers.ValidName(text) {
			return fmt.Sprintf("%.100q is not the name of a profile", text), "use lower-case letters, digits, _, - and ."
		}
	}
	return "", ""
}

func (k *key) checkList(list []string) (what, remedy string) {
	switch k.name {
	case "model.fallbacks":
		return checkFallbacks(list)
	case "include_ignored":
		for _, p := range list {
			if _, err := pattern.Glob(p); err != nil || p == "" {
				return fmt.Sprintf("%.100q is not a pattern", p), "write for example node_modules or *.so"
			}
		}
	case "services":
		if _, err := service.ParseAll(list); err != nil {
			e, _ := errors.AsType[*state.Error](err)
			return e.Message, e.Hint
		}
	case "allow_alternates":
		return checkPaths(list, "write for example /srv/git/mirror.git/objects")
	case "workspace_roots":
		return checkPaths(list, "write for example /home/me/src")
	case "providers.*.credential.command", "notify.command":
		return checkCommand(list)
	case "providers.*.omit":
		return checkWords(list, "write for example stream_options,parallel_tool_calls,strict")
	case "providers.*.allow_hosted":
		return checkWords(list, "write for example web_search,fetch_urls")
	}
	return "", ""
}

// checkLedger accepts the URL of a database without a password, which would be shown as other settings are.
func checkLedger(text string) (what, remedy string) {
	if text == "" {
		return "", ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || len(u.Path) < 2 {
		return "is not the URL of a PostgreSQL database", "write postgres://USER@HOST:PORT/DATABASE"
	}
	if _, has := u.User.Password(); has || u.Query().Has("password") || u.Query().Has("sslpassword") {
		return "has a password, which would be shown with it", "leave it out, and set PGPASSWORD, or PGPASSFILE with a file"
	}
	return "", ""
}

func checkStore(text string) (what, remedy string) {
	u, err := url.Parse(text)
	switch {
	case text == "":
	case err != nil || u.Scheme != "s3" || u.Host == "":
		return "is not the URL of a bucket", "write s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION"
	case u.User != nil:
		return "has credentials, which would be shown with it", "leave them out, and set AWS_ACCESS_KEY_ID and " +
			"AWS_SECRET_ACCESS_KEY"
	}
	return "", ""
}

func checkPaths(list []string, remedy string) (what, _ string) {
	for _, path := range list {
		if !filepath.IsAbs(path) {
			return fmt.Sprintf("%.100q is not an absolute path", path), remedy
		}
	}
	return "", ""
}

func checkCPUs(n float64) (what, remedy string) {
	if !(n >= 0 && n <= 4096) { // not a number is out of range, too
		return fmt.Sprintf("%g is out of range", n), "leave it out for the default"
	}
	if n < engine.MinNanoCPUs/1e9 {
		return fmt.Sprintf("%g is less than a container needs", n), "use 0.01 or more, or leave it out for the default"
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

func checkFallbacks(refs []string) (what, remedy string) {
	for _, ref := range refs {
		if what, remedy := checkRef(ref); what != "" {
			return what, remedy
		}
	}
	if len(refs) > 16 {
		return "there are more than 16", "name fewer"
	}
	return "", ""
}

func checkBaseURL(raw string) (what, remedy string) {
	_, _, what = providers.ParseBaseURL(raw)
	if strings.Contains(what, "password") {
		return what, "give the key as a credential"
	}
	return what, "write for example https://host/v1, or unix:///socket:/v1"
}

var (
	variablePattern = pattern.Lazy(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	omitPattern     = pattern.Lazy(`^[a-z][a-z0-9_]{0,63}$`)
)

func checkCommand(command []string) (what, remedy string) {
	if len(command) == 0 || len(command) > 64 || command[0] == "" || slices.ContainsFunc(command, func(a string) bool {
		return len(a) > 4096 || strings.ContainsRune(a, 0)
	}) {
		return "is not a command", `write a list of program and arguments, for example ["pass", "show", "acme"]`
	}
	return "", ""
}

func checkWords(list []string, remedy string) (string, string) {
	for _, k := range list {
		if !omitPattern().MatchString(k) {
			return fmt.Sprintf("%.60q is not a key of a request", k), remedy
		}
	}
	return "", ""
}
