package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/test/expect"
	"holon/test/programs"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// agentd alone, in an image that knows nothing of it, serves a client that
// knows nothing of Holon.
func TestUserAgentdAlone(t *testing.T) {
	t.Parallel()
	dirs := mounted(t)
	sh(t, dirs, "mkdir ws/project && cp -R '"+demoProject(t)+"/.' ws/project")
	container(t, baseImage, "-v", programs.Must("agentd")+":/holon/bin/agentd:ro",
		"-v", dirs+"/ipc:/holon/ipc", "-v", dirs+"/out:/holon/output", "-v", dirs+"/state:/holon/state", "-v",
		dirs+"/ws:/holon/workspaces",
		baseImage, "/holon/bin/agentd", "serve", "--model", "scripted/demo", "--workspace-dir",
		"/holon/workspaces/project")
	converse(t, filepath.Join(dirs, "ipc/agent.sock"))
	sh(t, dirs, "sh ws/project/test.sh")
	if turns, _ := filepath.Glob(filepath.Join(dirs, "out/turns/*/turn.json")); len(turns) != 2 {
		t.Errorf("records: %v", turns)
	}
}

// The image of the top-level Dockerfile does the same by itself.
func TestImage(t *testing.T) {
	t.Parallel()
	dockerfile, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Skip("there is no Dockerfile")
	}
	source := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(source, "Dockerfile"), dockerfile, 0o600))
	sh(t, source, "mkdir bin; cp '"+programs.Must("agentd")+"' bin/agentd")
	image := fmt.Sprintf("holon/e2e:%d", os.Getpid())
	// The first stage gets a name too, or the classic builder would leave it behind.
	stage := image + "-stage"
	t.Cleanup(func() { docker(t, "rmi", "--force", image, stage) })
	for _, tag := range [][]string{{"-t", stage, "--target", "build"}, {"-t", image, "--target", "agentd"}} {
		docker(t, slices.Concat([]string{"build", "-q"}, tag,
			[]string{"--build-arg", "AGENTD=prebuilt", "--build-arg", "GO_IMAGE=" + baseImage, "--build-arg",
				"BASE_IMAGE=" + baseImage, source})...)
	}

	dirs := mounted(t)
	sh(t, dirs, "cp -R '"+demoProject(t)+"/.' ws; chmod -R a+rwX ws; chmod 777 ipc out state")
	container(t, image, "-v", dirs+"/ipc:/holon/ipc", "-v", dirs+"/out:/holon/output", "-v", dirs+"/state:/holon/state",
		"-v", dirs+"/ws:/holon/workspaces", "-e", "HOLON_MODEL=scripted/demo", image)
	converse(t, filepath.Join(dirs, "ipc/agent.sock"))
	sh(t, dirs, "sh ws/test.sh")
}

// mounted makes the directories that a container is given, with a short path.
func mounted(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holon-e2e-")
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	sh(t, dir, "mkdir ipc out state ws; chmod 700 ipc state")
	return dir
}

// container starts a container and removes it when the test is over. It runs as
// the user of the test, so that the test may use its socket, or, for root, as the
// image says.
func container(t *testing.T, image string, args ...string) {
	t.Helper()
	if uid := os.Getuid(); uid != 0 {
		args = append([]string{"--user", fmt.Sprintf("%d:%d", uid, os.Getgid())}, args...)
	}
	id := strings.TrimSpace(docker(t, append([]string{"run", "-d", "--network", "none"}, args...)...))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s: %s", image, docker(t, "logs", id))
		}
		docker(t, "rm", "-f", id)
	})
}

// converse has a turn streamed, and continues it with another.
func converse(t *testing.T, socket string) {
	t.Helper()
	await(t, "agentd", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close() // only tried
		}
		return err == nil
	})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	client := openai.NewClient(option.WithBaseURL("http://agentd/v1/"),
		option.WithHTTPClient(&http.Client{Transport: transport}), option.WithAPIKey("unused"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	stream := client.Responses.NewStreaming(ctx, responses.ResponseNewParams{
		Model: "scripted/demo", Input: responses.ResponseNewParamsInputUnion{
			OfString: openai.String("fix the failing test")},
	})
	var text strings.Builder
	var last responses.Response
	for stream.Next() {
		switch ev := stream.Current(); ev.Type {
		case "response.output_text.delta":
			text.WriteString(ev.Delta)
		case "response.completed":
			last = ev.Response
		}
	}
	expect.NoError(t, stream.Err())
	if last.Status != "completed" || !strings.Contains(text.String(), "The test passes now.") {
		t.Fatalf("status %q: %s", last.Status, text.String())
	}
	next, err := client.Responses.New(ctx, responses.ResponseNewParams{
		Model: "scripted/demo", PreviousResponseID: openai.String(last.ID),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("and again")},
	})
	if err != nil || next.Status != "completed" || !strings.Contains(next.OutputText(), "passes already") {
		t.Fatalf("%v: %+v", err, next)
	}
}
