package docker

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"holon/runner/engine"
)

// An image with the files that a container sees, agentd among them, is made once for each image and content. It has the
// label imageLabel with the id of the image below it. One that was not used to make another for keepImages is removed
// with the next one, unless a container has it.
const (
	linkRepository = "holon/link"
	imageLabel     = "holon.image"
	keepImages     = 14 * 24 * time.Hour
)

// linkImage returns the image of a spec, and the one with files on top of it, which it makes if it is not there.
func (e *Engine) linkImage(ctx context.Context, spec engine.Spec, files []engine.Mount) (base, derived string,
	err error) {
	found, err := e.inspectImage(ctx, spec)
	if err != nil {
		return "", "", err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, found.ID)
	for _, m := range files {
		err = errors.Join(err, hashFile(sum, m))
	}
	if err != nil {
		return "", "", err
	}
	derived = linkRepository + ":" + hex.EncodeToString(sum.Sum(nil))[:24]
	_, err = e.api.ImageInspect(ctx, derived)
	if errdefs.IsNotFound(err) {
		err = e.makeLinkImage(ctx, spec, found, files, derived)
	}
	return found.ID, derived, wrapCreate(spec, err)
}

func hashFile(to io.Writer, m engine.Mount) error {
	f, err := os.Open(m.Source)
	if err != nil {
		return fmt.Errorf("read %s: %w", m.Source, err)
	}
	defer f.Close()
	fmt.Fprintln(to, m.Target)
	_, err = io.Copy(to, f)
	return err
}

// makeLinkImage commits a container that never runs and has the files.
func (e *Engine) makeLinkImage(ctx context.Context, spec engine.Spec, base image.InspectResponse, files []engine.Mount,
	derived string) (err error) {
	config, host := unstarted(spec, base.ID)
	h, err := e.make(ctx, spec, config, host, spec.Name+"-image")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Remove(context.WithoutCancel(ctx), h)) }()
	if err := e.send(ctx, h.ID, "/", func(tw *tar.Writer) error { return packFiles(tw, files) }); err != nil {
		return err
	}
	labels := map[string]string{imageLabel: base.ID}
	for key := range config.Labels { // which containers of the image would have
		labels[key] = ""
	}
	_, err = e.api.ContainerCommit(ctx, h.ID, container.CommitOptions{Reference: derived,
		Config: &container.Config{Labels: labels}})
	if err == nil {
		_, _ = e.OldImages(ctx, true) // or the next time
	}
	return err
}

// packFiles writes files as root's, which all can read and run.
func packFiles(tw *tar.Writer, files []engine.Mount) error {
	made := map[string]bool{}
	for _, m := range files {
		var parents []string
		for dir := path.Dir(m.Target); dir != "/" && !made[dir]; dir = path.Dir(dir) {
			parents, made[dir] = append(parents, dir), true
		}
		for i := len(parents) - 1; i >= 0; i-- {
			h := &tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(parents[i], "/") + "/", Mode: 0o755}
			if err := tw.WriteHeader(h); err != nil {
				return err
			}
		}
		if err := packReadable(tw, m); err != nil {
			return err
		}
	}
	return nil
}

func packReadable(tw *tar.Writer, m engine.Mount) error {
	f, err := os.Open(m.Source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	err = tw.WriteHeader(&tar.Header{Name: strings.TrimPrefix(m.Target, "/"), Mode: mode, Size: info.Size()})
	if err == nil {
		_, err = io.CopyN(tw, f, info.Size())
	}
	return err
}

// OldImages implements engine.ImageCleaner. Images of earlier versions are among them, and those without a name: of two
// that are made at the same time one loses it.
func (e *Engine) OldImages(ctx context.Context, remove bool) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := e.api.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("label", imageLabel))})
	if err != nil {
		return nil, wrap("list images", err)
	}
	containers, err := e.api.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, wrap("list containers", err)
	}
	foreign := func(tag string) bool { return !strings.HasPrefix(tag, linkRepository+":") && tag != "<none>:<none>" }
	for _, old := range list {
		used := func(c container.Summary) bool { return c.ImageID == old.ID }
		if time.Since(time.Unix(old.Created, 0)) <= keepImages || slices.ContainsFunc(old.RepoTags, foreign) ||
			slices.ContainsFunc(containers, used) {
			continue
		}
		if remove {
			if _, err := e.api.ImageRemove(ctx, old.ID, image.RemoveOptions{}); err != nil {
				continue // a container has got it since, or it is gone
			}
		}
		names = append(names, append(old.RepoTags, old.ID)[0])
	}
	return names, nil
}
