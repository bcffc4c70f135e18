package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"holon/test/load"
)

// daemon talks to a Docker engine without a client library, so that the floor
// has no cost but the engine's.
type daemon struct{ client *http.Client }

// newDaemon takes the address as the docker CLI does: unix:///path or
// tcp://host:port.
func newDaemon(host string) (*daemon, error) {
	network, address, ok := strings.Cut(host, "://")
	switch {
	case ok && network == "unix" && address != "":
		return &daemon{load.Unix(address)}, nil
	case ok && network == "tcp" && address != "":
		client := newTCPClient()
		client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
		return &daemon{client}, nil
	}
	return nil, fmt.Errorf("-docker %q: write unix:///path or tcp://host:port", host)
}

func newTCPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, DisableCompression: true}}
}

// errNotFound is an answer 404.
var errNotFound = errors.New("not found")

// call makes one call of the API and decodes its answer into out, unless that
// is nil.
func (d *daemon) call(ctx context.Context, method, path, kind string, body io.Reader, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://docker/v1.41"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	resp, err := d.client.Do(req)
	if err != nil {
		return fmt.Errorf("docker engine: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("docker engine: %w", err)
	}
	if resp.StatusCode == http.StatusNotFound {
		return fmt.Errorf("docker engine: %s: %w", bytes.TrimSpace(answer), errNotFound)
	}
	if resp.StatusCode >= 400 {
		return fmt.Errorf("docker engine: %s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(answer))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// importImage makes an image from scratch that holds program as /floor.
func (d *daemon) importImage(ctx context.Context, name, program string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "floor", Mode: 0o755, Size: int64(len(data))}); err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return d.call(ctx, http.MethodPost, "/images/create?fromSrc=-&repo="+name, "application/x-tar", &archive, nil)
}

// removeImage removes an image, also when the run was interrupted.
func (d *daemon) removeImage(name string) error {
	return there(d.call(context.Background(), http.MethodDelete, "/images/"+name+"?force=1", "", nil, nil))
}

// there is err, unless that says that something was gone before it was removed.
func there(err error) error {
	if errors.Is(err, errNotFound) {
		return nil
	}
	return err
}

// create creates the floor's container: network none and a directory with its
// socket, nothing else.
func (d *daemon) create(ctx context.Context, image, mark, dir string) (id string, err error) {
	key, value, _ := bytes.Cut([]byte(mark), []byte("="))
	config, err := json.Marshal(map[string]any{
		"Image": image, "Entrypoint": []string{"/floor", "serve", "/ipc/floor.sock"},
		"Labels":     map[string]string{string(key): string(value)},
		"HostConfig": map[string]any{"NetworkMode": "none", "Binds": []string{dir + ":/ipc"}},
	})
	if err != nil {
		return "", err
	}
	var created struct{ ID string }
	err = d.call(ctx, http.MethodPost, "/containers/create", "application/json", bytes.NewReader(config), &created)
	return created.ID, err
}

// do has the engine do something to a container: start, stop, pause, unpause.
func (d *daemon) do(ctx context.Context, what, id string) error {
	return d.call(ctx, http.MethodPost, "/containers/"+id+"/"+what, "", nil, nil)
}

// remove removes a container, also when the run was interrupted.
func (d *daemon) remove(id string) error {
	return there(d.call(context.Background(), http.MethodDelete, "/containers/"+id+"?force=1&v=1", "", nil, nil))
}

// labelled lists the containers with a label, "key=value".
func (d *daemon) labelled(ctx context.Context, mark string) (ids []string, err error) {
	filter, err := json.Marshal(map[string][]string{"label": {mark}})
	if err != nil {
		return nil, err
	}
	var found []struct{ ID string }
	err = d.call(ctx, http.MethodGet, "/containers/json?all=1&filters="+url.QueryEscape(string(filter)), "", nil, &found)
	for _, c := range found {
		ids = append(ids, c.ID)
	}
	return ids, err
}

func (d *daemon) removeLabelled(mark string) error {
	ids, err := d.labelled(context.Background(), mark)
	for _, id := range ids {
		err = errors.Join(err, d.remove(id))
	}
	return err
}

// awaitAnswer waits until somebody listens at socket, and then for the answer to
// one request for path. Looking costs next to nothing, so that it does not
// disturb what it waits for.
func awaitAnswer(ctx context.Context, socket, path string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, load.Patience, fmt.Errorf("no answer at %s", socket))
	defer cancel()
	for {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
			break
		}
		if err := load.Pause(ctx, 200*time.Microsecond); err != nil {
			return err
		}
	}
	client := load.Unix(socket)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server"+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s at %s: %w", path, socket, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask %s at %s: %s", path, socket, resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
