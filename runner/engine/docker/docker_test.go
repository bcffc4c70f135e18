package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"holon/runner/engine"
	"holon/test/enginetest"
	"holon/test/expect"
)

func TestMain(m *testing.M) { enginetest.Main(m, removeImage) }

// The engine is the one of DOCKER_HOST; HOLON_TEST_RUNTIME chooses among its
// runtimes.
func TestSuite(t *testing.T) {
	e := connect(t)
	enginetest.Run(t, enginetest.Rig{
		New:      func(t *testing.T) engine.Engine { return connect(t) },
		Image:    suiteImage(t, e),
		Program:  "/probe",
		Runtime:  os.Getenv("HOLON_TEST_RUNTIME"),
		Contains: true,
	})
}

// TestStreamSuite is the same of containers that share no directory with the host.
func TestStreamSuite(t *testing.T) {
	e := connect(t)
	enginetest.Run(t, enginetest.Rig{
		New: func(t *testing.T) engine.Engine {
			apart := connect(t)
			apart.SetLink(engine.LinkStream)
			return apart
		},
		Image:    suiteImage(t, e),
		Program:  "/probe",
		Contains: true,
		Streams:  true,
	})
}

// connect returns an engine, or skips the test where none answers.
func connect(t testing.TB) *Engine {
	t.Helper()
	e, err := New("", "")
	expect.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := e.api.Ping(ctx); err != nil {
		t.Skipf("no Docker engine answers: %v", err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// contrary has settings that contradict ours in every way an image can.
const contrary = `FROM scratch
COPY probe /probe
COPY empty /etc/
ENTRYPOINT ["/nothing"]
CMD ["nothing"]
USER 4242:4242
STOPSIGNAL SIGKILL
WORKDIR /nowhere
HEALTHCHECK --interval=1s CMD /nothing
ENV TEXT=of-the-image
`

// shared is the image that the tests share; "" until one of them needs it.
var shared string

// suiteImage returns an image that holds the suite's program as /probe.
func suiteImage(t testing.TB, e *Engine) string {
	t.Helper()
	if shared != "" {
		return shared
	}
	data, err := os.ReadFile(enginetest.Program)
	expect.NoError(t, err)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for name, content := range map[string][]byte{"Dockerfile": []byte(contrary), "probe": data, "empty": nil} {
		expect.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}))
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	expect.NoError(t, w.Close())
	ref := "holon-enginetest:" + tag()
	answer, err := e.api.ImageBuild(t.Context(), &archive,
		build.ImageBuildOptions{Tags: []string{ref}, Remove: true, ForceRemove: true, NoCache: true})
	expect.NoError(t, err)
	defer answer.Body.Close()
	if log, err := io.ReadAll(answer.Body); err != nil || !bytes.Contains(log, []byte("Successfully tagged")) {
		t.Fatalf("build the suite's image: %v\n%s", err, log)
	}
	shared = ref
	return ref
}

// removeImage removes the shared image.
func removeImage() error {
	if shared == "" {
		return nil
	}
	e, err := New("", "")
	if err != nil {
		return err
	}
	ctx, cancel := afterTest()
	defer cancel()
	base, err := e.api.ImageInspect(ctx, shared)
	if err != nil {
		return errors.Join(err, e.Close())
	}
	above, err := e.api.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", imageLabel+"="+base.ID))})
	for _, made := range above {
		_, removeErr := e.api.ImageRemove(ctx, made.ID, image.RemoveOptions{Force: true, PruneChildren: true})
		err = errors.Join(err, removeErr)
	}
	if err != nil {
		return errors.Join(err, e.Close())
	}
	_, err = e.api.ImageRemove(ctx, shared, image.RemoveOptions{Force: true, PruneChildren: true})
	return errors.Join(err, e.Close())
}

// tag is a word that no other image or container has.
func tag() string { return strings.ToLower(rand.Text()) }

// afterTest is a context for cleaning up, when that of the test is done.
func afterTest() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}
