package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// quiet makes programs behave without a person: no pager, no prompt, no colour,
// no editor.
var quiet = []string{
	"TERM=dumb", "NO_COLOR=1",
	"PAGER=cat", "MANPAGER=cat", "GIT_PAGER=cat", "SYSTEMD_PAGER=cat",
	"GIT_TERMINAL_PROMPT=0", "GCM_INTERACTIVE=never", "GH_PROMPT_DISABLED=1",
	"DEBIAN_FRONTEND=noninteractive", "PIP_NO_INPUT=1",
}

// passed are the names of the parent's variables that a command may see: its
// user and place, and what images set to make their tool chains work.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "TZ", "TMPDIR",
	"LANG", "LANGUAGE", "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS", "VIRTUAL_ENV", "NODE_ENV", "NODE_PATH",
	"PNPM_HOME", "BUN_INSTALL", "DENO_DIR", "M2_HOME", "GEM_HOME", "GEM_PATH", "BUNDLE_PATH",
	"GO111MODULE", "GOARCH", "GOBIN", "GOCACHE", "GOEXPERIMENT", "GOFLAGS", "GOINSECURE", "GOMAXPROCS", "GOMODCACHE",
	"GONOPROXY", "GONOSUMDB", "GOOS", "GOPATH", "GOPRIVATE", "GOPROXY", "GOROOT", "GOSUMDB", "GOTMPDIR", "GOTOOLCHAIN",
	"GOWORK", "CGO_ENABLED", "SOURCE_DATE_EPOCH",
}

// passedPrefixes complete passed for families of names.
var passedPrefixes = []string{
	"LC_", "XDG_", "CARGO_", "RUSTUP_", "RUST_", "PYTHON", "UV_", "CONDA_", "NVM_", "NPM_CONFIG_", "npm_config_",
	"YARN_", "JAVA_", "JDK_", "MAVEN_", "GRADLE_", "RUBY", "DOTNET_", "NUGET_", "PHP_", "COMPOSER_", "PERL",
	"GIT_AUTHOR_", "GIT_COMMITTER_",
}

// secretWords mark a name as a credential, even if it is listed as passed.
var secretWords = []string{
	"API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH",
}

// Environ returns the environment for commands: the harmless variables of
// parent ("K=V" entries), settings that keep programs from waiting for a
// person, and extra, which wins and is passed as it is. Provider keys and every
// HOLON_* variable of the parent stay behind. The result is sorted.
func Environ(parent []string, extra ...string) []string {
	env := map[string]string{"PATH": defaultPath, "LANG": "C.UTF-8"}
	for _, kv := range parent {
		name, value, ok := strings.Cut(kv, "=")
		if ok && mayPass(name) && !strings.Contains(value, "\x00") {
			env[name] = value
		}
	}
	for _, kv := range append(slices.Clone(quiet), extra...) {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			env[name] = value
		}
	}
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

func mayPass(name string) bool {
	upper := strings.ToUpper(name)
	if strings.HasPrefix(upper, "HOLON_") {
		return false
	}
	for _, word := range secretWords {
		if strings.Contains(upper, word) && !strings.HasPrefix(upper, "GIT_AUTHOR_") {
			return false
		}
	}
	if slices.Contains(passed, name) {
		return true
	}
	return slices.ContainsFunc(passedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// LookPath returns the absolute path of a program that a command of agentd's own environment would run, "" where there
// is none.
func LookPath(name string) string {
	path, err := lookPath(name, "/", os.Environ())
	if err != nil {
		return ""
	}
	return path
}

// lookPath finds a program the way the command itself would, by the PATH of its
// own environment, not by ours. Empty and relative PATH entries are skipped: a
// working tree does not get to supply programs by their bare names.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	for _, d := range filepath.SplitList(lookupEnv(env, "PATH")) {
		if !filepath.IsAbs(d) {
			continue
		}
		path := filepath.Join(d, name)
		if executable(path) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w in PATH", fs.ErrNotExist)
}

func lookupEnv(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

func executable(path string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return errors.Unwrap(err)
	}
	if !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0 {
		return fs.ErrPermission
	}
	return nil
}
