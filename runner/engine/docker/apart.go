package docker

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"golang.org/x/sync/errgroup"

	"holon/internal/transfer"
	"holon/runner/engine"
	"holon/state"
)

// A container with LinkStream shares nothing with this machine:
//
//	files of the mounts       ─▶ an image on top of that of the spec, made once (linkimage.go)
//	directories of the mounts ─▶ volumes, filled through a second container that never runs
//	sockets                   ─▶ a stream of an exec (link.go)
//
// The second container has the name of the first with filesSuffix. The volumes are its own and go with it.
const filesSuffix = "-files"

// filesLabel is on the second container, with the name of the first, and linkLabel on the first.
const (
	filesLabel = "holon.files"
	linkLabel  = "holon.link"
)

// Streams implements engine.Linker.
func (e *Engine) Streams(ctx context.Context) (bool, error) {
	if e.link == engine.LinkMounts {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := e.daemon(ctx)
	if err != nil {
		return false, wrap("reach the Docker engine", err)
	}
	_, rootless := securityOption(info, "rootless")
	// Any engine on a Mac runs in a virtual machine, with which it shares no sockets.
	local := strings.HasPrefix(e.api.DaemonHost(), "unix://") && runtime.GOOS == "linux"
	if e.link == engine.LinkStream || !local || rootless || info.OperatingSystem == desktop {
		return true, nil
	}
	product, err := e.product(ctx) // Podman does not say whether it is root
	return product == engine.ProductPodman, err
}

// createApart makes a container with LinkStream, whose directories are filled.
func (e *Engine) createApart(ctx context.Context, spec engine.Spec, config *container.Config,
	host *container.HostConfig) (h engine.Handle, err error) {
	files := slices.DeleteFunc(slices.Clone(spec.Mounts), engine.Mount.IsDirectory)
	dirs := slices.DeleteFunc(slices.Clone(spec.Mounts), func(m engine.Mount) bool { return !m.IsDirectory() })
	base, derived, err := e.linkImage(ctx, spec, files)
	if err != nil {
		return engine.Handle{}, err
	}
	config.Image, config.Labels[linkLabel], config.Labels[imageLabel] = derived, engine.LinkStream, base
	second, volumes, err := e.makeVolumes(ctx, spec, derived, dirs)
	if err != nil {
		return engine.Handle{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Remove(context.WithoutCancel(ctx), second))
		}
	}()
	host.Mounts = nil
	for _, m := range dirs {
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeVolume, Source: volumes[m.Target], Target: m.Target,
			ReadOnly: m.ReadOnly && !m.Updated, VolumeOptions: &mount.VolumeOptions{NoCopy: true}})
	}
	var group errgroup.Group // the daemon does one while it waits for the files of the other
	group.Go(func() error { return e.fill(ctx, spec, second, dirs) })
	h, err = e.make(ctx, spec, config, host, spec.Name)
	h.Link = engine.LinkStream
	filled := group.Wait()
	if err != nil {
		return h, err
	}
	if err = filled; err == nil {
		err = e.own(ctx, h, dirs)
	}
	if err != nil {
		err = errors.Join(wrapCreate(spec, err), e.remove(context.WithoutCancel(ctx), h.ID, h.Name))
	}
	return h, err
}

// fill copies directories to the volumes of a container that never ran. Podman finds a volume only if it is asked for
// the directory itself, and has what is copied to "/" below the volumes.
func (e *Engine) fill(ctx context.Context, spec engine.Spec, second engine.Handle, dirs []engine.Mount) error {
	product, err := e.product(ctx)
	if err != nil {
		return err
	}
	if product != engine.ProductPodman {
		return e.send(ctx, second.ID, "/", func(tw *tar.Writer) (err error) {
			for _, m := range dirs {
				err = transfer.Pack(ctx, tw, m.Source, m.Target, spec.Beneath(m.Target), spec.ComesLate(m),
					spec.Users()...)
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, m := range dirs {
		err := e.send(ctx, second.ID, m.Target, func(tw *tar.Writer) error {
			return transfer.Pack(ctx, tw, m.Source, ".", spec.Beneath(m.Target), spec.ComesLate(m), spec.Users()...)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// own has Podman give directories to their owners: when a container starts, a volume gets owner and mode of the
// directory below it.
func (e *Engine) own(ctx context.Context, h engine.Handle, dirs []engine.Mount) error {
	if product, err := e.product(ctx); err != nil || product != engine.ProductPodman {
		return err
	}
	return e.send(ctx, h.ID, "/", func(tw *tar.Writer) error {
		for _, m := range dirs {
			info, err := os.Stat(m.Source)
			if err != nil {
				return err
			}
			header, err := tar.FileInfoHeader(info, "")
			if err != nil {
				return err
			}
			header.Name, header.Uname, header.Gname = strings.TrimPrefix(m.Target, "/")+"/", "", ""
			if err := tw.WriteHeader(header); err != nil {
				return err
			}
		}
		return nil
	})
}

// unstarted is a container that never runs, of the one that is made from a spec.
func unstarted(spec engine.Spec, image string) (*container.Config, *container.HostConfig) {
	labels := map[string]string{}
	maps.Copy(labels, spec.Labels)
	labels[filesLabel] = spec.Name
	return &container.Config{Image: image, Entrypoint: spec.Args, Labels: labels},
		&container.HostConfig{NetworkMode: engine.NetworkNone}
}

// makeVolumes makes the second container, and returns the names of its volumes by their targets.
func (e *Engine) makeVolumes(ctx context.Context, spec engine.Spec, image string, dirs []engine.Mount) (
	second engine.Handle, volumes map[string]string, err error) {
	config, host := unstarted(spec, image)
	for _, m := range dirs {
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeVolume, Target: m.Target,
			VolumeOptions: &mount.VolumeOptions{NoCopy: true}})
	}
	second, err = e.make(ctx, spec, config, host, spec.Name+filesSuffix)
	if err != nil {
		return second, nil, err
	}
	found, err := e.inspect(ctx, second)
	if err != nil {
		return second, nil, errors.Join(wrapCreate(spec, err), e.Remove(context.WithoutCancel(ctx), second))
	}
	volumes = make(map[string]string)
	for _, m := range found.Mounts {
		volumes[m.Destination] = m.Name
	}
	return second, volumes, nil
}

// send copies what pack writes into a directory of a container that never ran.
func (e *Engine) send(ctx context.Context, id, dir string, pack func(*tar.Writer) error) error {
	in, out := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		buffered := bufio.NewWriterSize(out, 64<<10) // each write is a chunk of the request
		tw := tar.NewWriter(buffered)
		err := pack(tw)
		if err == nil {
			err = errors.Join(tw.Close(), buffered.Flush())
		}
		out.CloseWithError(err)
		packed <- err
	}()
	err := e.api.CopyToContainer(ctx, id, dir, in, container.CopyToContainerOptions{})
	in.CloseWithError(errors.New("the engine stopped reading"))
	if packErr := <-packed; err == nil {
		err = packErr
	}
	return err
}

// Read implements engine.Linker. The second container has the files, also while something else removes the first.
func (e *Engine) Read(ctx context.Context, h engine.Handle, dir string) (io.ReadCloser, error) {
	what, from := "read "+dir+" of container "+h.Name, h.Name+filesSuffix
	content, _, err := e.api.CopyFromContainer(ctx, from, dir)
	if state.IsCode(wrap(what, err), engine.CodeNotFound) {
		from = h.ID
		content, _, err = e.api.CopyFromContainer(ctx, from, dir)
	}
	there := func() error {
		_, err := e.api.ContainerInspect(ctx, from)
		return wrap(what, err)
	}
	return &contents{content, what, there}, wrap(what, err)
}

// contents are what a container has, with errors of the engine. Of one that was removed meanwhile something may be
// missing, which the end says: its directories go after it does.
type contents struct {
	io.ReadCloser
	what  string
	there func() error
}

func (c *contents) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	switch {
	case err == nil:
	case !errors.Is(err, io.EOF):
		err = wrap(c.what, err)
	default:
		if gone := c.there(); gone != nil {
			err = gone
		}
	}
	return n, err
}
