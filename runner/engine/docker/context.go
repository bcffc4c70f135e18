package docker

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/docker/client"

	"holon/runner/engine"
)

// endpoint is the part of a Docker context that says where the engine is.
type endpoint struct {
	Host          string
	SkipTLSVerify bool
}

// contextOptions returns what the context of the Docker tools says of the engine: DOCKER_CONTEXT, or else the current
// one of their configuration.
func contextOptions() ([]client.Opt, error) {
	dir := configDir()
	var config struct{ CurrentContext string }
	_ = readJSON(filepath.Join(dir, "config.json"), &config) // the Docker tools go on without it, too
	name := cmp.Or(os.Getenv("DOCKER_CONTEXT"), config.CurrentContext, "default")
	if name == "default" {
		return nil, nil
	}
	options, err := readContext(filepath.Join(dir, "contexts"), name)
	if err != nil {
		return nil, fmt.Errorf("docker context %q: %w", name, err)
	}
	return options, nil
}

func configDir() string {
	dir := os.Getenv("DOCKER_CONFIG")
	if home, err := os.UserHomeDir(); dir == "" && err == nil {
		dir = filepath.Join(home, ".docker")
	}
	return dir
}

// withCertificates makes the client use TLS for tcp:// where the variables of the Docker tools ask for it. The engine's
// certificate is checked even without DOCKER_TLS_VERIFY.
func withCertificates(host string) client.Opt {
	dir := os.Getenv(client.EnvOverrideCertPath)
	if !strings.HasPrefix(host, "tcp://") || dir == "" && os.Getenv(client.EnvTLSVerify) == "" {
		return func(*client.Client) error { return nil }
	}
	return certificates(cmp.Or(dir, configDir()))
}

func certificates(dir string) client.Opt {
	return client.WithTLSClientConfig(filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"),
		filepath.Join(dir, "key.pem"))
}

func readContext(dir, name string) ([]client.Opt, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	var meta struct{ Endpoints map[string]endpoint }
	if err := readJSON(filepath.Join(dir, "meta", id, "meta.json"), &meta); err != nil {
		return nil, err
	}
	const kind = "docker" // of the endpoints that Docker's own contexts have
	to := meta.Endpoints[kind]
	if to.Host == "" {
		return nil, errors.New("it has no endpoint of an engine")
	}
	options := []client.Opt{withHost(to.Host)}
	if strings.HasPrefix(to.Host, "ssh:") {
		return options, nil
	}
	tls := filepath.Join(dir, "tls", id, kind)
	if _, err := os.Stat(tls); err == nil {
		if to.SkipTLSVerify {
			return nil, errors.New("it skips the check of the engine's certificate, which is not supported")
		}
		options = append(options, certificates(tls))
	}
	return options, nil
}

func readJSON(path string, to any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

// unusable is the error of settings for the client.
func unusable(err error) error {
	return &engine.Error{Code: engine.CodeUnreachable, Param: "engine", Err: err,
		Message: "the settings for the Docker client are not usable",
		Hint:    "check DOCKER_HOST, DOCKER_CERT_PATH, DOCKER_CONTEXT and `docker context ls`"}
}
