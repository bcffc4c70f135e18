package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"holon/test/load"
)

// daemon talks to a Docker engine: about what is measured without a client library, so that the floor
// has no cost but the engine's, and about the rest by the docker command.
type daemon struct {
	host   string
	client *http.Client
}

// newDaemon takes the address as the docker command does.
func newDaemon(host string) (*daemon, error) {
	socket, ok := strings.CutPrefix(host, "unix://")
	if !ok {
		return nil, fmt.Errorf("-docker %q: write unix:///path; the floor's container shares a directory with this program",
			host)
	}
	return &daemon{host, load.Unix(socket)}, nil
}

// docker runs the command and returns the words that it prints. It does so also when the run was interrupted.
func (d *daemon) docker(in io.Reader, args ...string) ([]string, error) {
	cmd := exec.Command("docker", append([]string{"--host", d.host}, args...)...)
	cmd.Stdin = in
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("docker %s: %w: %s", args[0], err, e.Stderr)
	}
	return strings.Fields(string(out)), err
}

// importImage makes an image from scratch that holds program as /floor, and as the shell without which no run begins.
func (d *daemon) importImage(name, program, scratch string) error {
	base := filepath.Base(program)
	err := os.Mkdir(filepath.Join(scratch, "bin"), 0o755)
	if err == nil {
		err = os.Symlink("/"+base, filepath.Join(scratch, "bin", "sh"))
	}
	if err != nil {
		return err
	}
	archive, err := exec.Command("tar", "--create", "--directory", filepath.Dir(program), base, "--directory", scratch,
		"bin").Output()
	if err == nil {
		_, err = d.docker(bytes.NewReader(archive), "import", "-", name)
	}
	return err
}

func (d *daemon) removeImage(name string) error {
	_, err := d.docker(nil, "image", "rm", "--force", name)
	return err
}

// labelled lists the containers with a label, "key=value".
func (d *daemon) labelled(mark string) ([]string, error) {
	return d.docker(nil, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label="+mark)
}

func (d *daemon) removeLabelled(mark string) error {
	ids, err := d.labelled(mark)
	if err == nil && len(ids) > 0 {
		_, err = d.docker(nil, append([]string{"rm", "--force", "--volumes"}, ids...)...)
	}
	return err
}

// call makes one call of the API and decodes its answer into out, unless that
// is nil.
func (d *daemon) call(ctx context.Context, method, path string, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://docker/v1.41"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := d.client.Do(req)
	if err != nil {
		return fmt.Errorf("docker engine: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("docker engine: %s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(answer))
	}
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(answer, out)
}

// create creates the floor's container: network none and a directory with its
// socket, nothing else.
func (d *daemon) create(ctx context.Context, image, mark, dir string) (id string, err error) {
	key, value, _ := strings.Cut(mark, "=")
	config, err := json.Marshal(map[string]any{
		"Image": image, "Entrypoint": []string{"/floor", "serve", "/ipc/floor.sock"},
		"Labels":     map[string]string{key: value},
		"HostConfig": map[string]any{"NetworkMode": "none", "Binds": []string{dir + ":/ipc"}},
	})
	if err != nil {
		return "", err
	}
	var created struct{ ID string }
	err = d.call(ctx, http.MethodPost, "/containers/create", config, &created)
	return created.ID, err
}

func (d *daemon) do(ctx context.Context, what, id string) error {
	return d.call(ctx, http.MethodPost, "/containers/"+id+"/"+what, nil, nil)
}

func (d *daemon) remove(ctx context.Context, id string) error {
	return d.call(ctx, http.MethodDelete, "/containers/"+id+"?force=1&v=1", nil, nil)
}

// awaitAnswer asks for path at a socket until a server there answers. Looking costs next to nothing: it does not
// disturb what it waits for.
func awaitAnswer(ctx context.Context, socket, path string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, load.Patience, fmt.Errorf("no answer at %s", socket))
	defer cancel()
	client := load.Unix(socket)
	defer client.CloseIdleConnections()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server"+path, nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			if resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("ask %s at %s: %s", path, socket, resp.Status)
			}
			return errors.Join(err, resp.Body.Close())
		}
		if err := load.Pause(ctx, 200*time.Microsecond); err != nil {
			return err
		}
	}
}
