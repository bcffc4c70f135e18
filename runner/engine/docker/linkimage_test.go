package docker

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"

	"holon/runner/engine"
	"holon/state"
	"holon/test/expect"
)

// Two containers whose image with their files is made at the same time both have one, and what is left over of it has
// the label by which it is removed later.
func TestLinkImageThatIsMadeTwice(t *testing.T) {
	e := connect(t)
	e.SetLink(engine.LinkStream)
	file := filepath.Join(t.TempDir(), "f")
	expect.NoError(t, os.WriteFile(file, []byte(tag()), 0o644))
	base := suiteImage(t, e)
	spec := [2]engine.Spec{faultSpec(base), faultSpec(base)}
	var made [2]engine.Handle
	var errs [2]error
	var both sync.WaitGroup
	for i := range spec {
		spec[i].Mounts = []engine.Mount{{Source: file, Target: "/file", ReadOnly: true}}
		both.Go(func() { made[i], errs[i] = e.Create(t.Context(), spec[i]) })
	}
	both.Wait()
	expect.NoError(t, errors.Join(errs[:]...))
	for i, h := range made {
		found, err := e.Inspect(t.Context(), h)
		expect.NoError(t, err)
		expect.Equal(t, "status", found.Status, engine.StatusCreated)
		inspected, err := e.api.ContainerInspect(t.Context(), h.ID)
		expect.NoError(t, err)
		if n := leftover(t, e, spec[i].Labels); n != 1 {
			t.Errorf("%d containers, want 1", n)
		}
		removeLinkImage(t, e, inspected.Image)
	}
}

// An image with files is old two weeks after it was made, unless a container has it or it has a name of a user's.
func TestOldImages(t *testing.T) {
	images := fmt.Sprintf(`[{"Id":"new","Created":%d,"RepoTags":["holon/link:new"]},
		{"Id":"old","RepoTags":["holon/link:old"]}, {"Id":"used","RepoTags":["holon/link:used"]},
		{"Id":"named","RepoTags":["holon/link:named","mine:1"]}, {"Id":"nameless"}]`, time.Now().Unix())
	var removed []string
	e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			removed = append(removed, path.Base(r.URL.Path))
			fmt.Fprint(w, "[]")
		case strings.HasSuffix(r.URL.Path, "/images/json"):
			fmt.Fprint(w, images)
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			fmt.Fprint(w, `[{"Id":"c","ImageID":"used"}]`)
		}
	}), func() {})
	for _, remove := range []bool{false, true} {
		found, err := e.OldImages(t.Context(), remove)
		expect.NoError(t, err)
		expect.Equal(t, "old", strings.Join(found, " "), "holon/link:old nameless")
	}
	expect.Equal(t, "removed", strings.Join(removed, " "), "old nameless")
}

// removeLinkImage removes an image that holds the files of containers, by which label it is found.
func removeLinkImage(t *testing.T, e *Engine, id string) {
	t.Helper()
	found, err := e.api.ImageInspect(t.Context(), id)
	if errdefs.IsNotFound(err) {
		return // two containers had it
	}
	expect.NoError(t, err)
	if found.Config.Labels[imageLabel] == "" {
		t.Errorf("%v has no label %s", found.RepoTags, imageLabel)
	}
	_, err = e.api.ImageRemove(t.Context(), id, image.RemoveOptions{Force: true})
	expect.NoError(t, err)
}

// A container of an image that was removed is refused, whatever was made on top of it.
func TestLinkImageWithoutItsBase(t *testing.T) {
	e := connect(t)
	e.SetLink(engine.LinkStream)
	spec := faultSpec("holon-enginetest:" + tag())
	expect.NoError(t, e.api.ImageTag(t.Context(), suiteImage(t, e), spec.Image))
	file := filepath.Join(t.TempDir(), "f")
	expect.NoError(t, os.WriteFile(file, []byte(tag()), 0o644))
	spec.Mounts = []engine.Mount{{Source: file, Target: "/file", ReadOnly: true}}
	h, err := e.Create(t.Context(), spec)
	expect.NoError(t, err)
	inspected, err := e.api.ContainerInspect(t.Context(), h.ID)
	expect.NoError(t, err)
	_, err = e.api.ImageRemove(t.Context(), spec.Image, image.RemoveOptions{})
	expect.NoError(t, err)
	if n := leftover(t, e, spec.Labels); n != 1 {
		t.Errorf("%d containers, want 1", n)
	}
	defer removeLinkImage(t, e, inspected.Image)
	_, err = e.Create(t.Context(), spec)
	if !state.IsCode(err, engine.CodeImageNotFound) {
		t.Errorf("Create = %v, want %s", err, engine.CodeImageNotFound)
	}
}
