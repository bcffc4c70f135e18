package projectimage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"holon/internal/visible"
	"holon/state"
)

// CodeBuildFailed is the code of an image that could not be built.
const CodeBuildFailed state.Code = "image_build_failed"

// Build builds the image with the docker program, whose output goes to out.
func (r *Recipe) Build(ctx context.Context, out io.Writer) (err error) {
	docker, err := exec.LookPath("docker")
	if err != nil {
		return &state.Error{Code: CodeBuildFailed, Param: "PATH", Message: "there is no docker program on it",
			Hint: "install it (Debian: apt-get install docker.io)"}
	}
	dir, err := os.MkdirTemp("", "holon-image-")
	if err != nil {
		return fmt.Errorf("make a directory to build in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for name, data := range r.files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err = os.MkdirAll(filepath.Dir(at), 0o755); err == nil {
			err = os.WriteFile(at, data, 0o755)
		}
		if err != nil {
			return fmt.Errorf("write what the image is built from: %w", err)
		}
	}
	for _, step := range r.steps(dir) {
		cmd := exec.CommandContext(ctx, docker, step.args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(step.stdin), out, out
		if err := cmd.Run(); err != nil {
			return &state.Error{Code: CodeBuildFailed, Param: r.File,
				Message: "docker build failed: " + visible.OneLine(err.Error(), 200),
				Hint:    "its output says why; the build sees only the directory of the recipe and files that name dependencies"}
		}
	}
	return nil
}

// step is one call of docker.
type step struct {
	args  []string
	stdin string
}

// steps build a Dockerfile, and an image on top of it in which the commands were run.
func (r *Recipe) steps(dir string) (list []step) {
	from := r.image
	if b := r.build; b != nil {
		from = r.Tag
		args := []string{"build", "--tag", r.Tag, "--file", filepath.Join(dir, b.Dockerfile)}
		if b.Target != "" {
			args = append(args, "--target", b.Target)
		}
		for name, value := range b.Args {
			args = append(args, "--build-arg", name+"="+value)
		}
		list = append(list, step{args: append(args, filepath.Join(dir, b.Context))})
	}
	if r.build != nil && len(r.after) == 0 {
		return list
	}
	text := "FROM " + from + "\n"
	if len(r.after) > 0 {
		text += "USER 0\nCOPY . /opt/project\nWORKDIR /opt/project\nRUN " + strings.Join(r.after, "\nRUN ") + "\n"
	}
	return append(list, step{[]string{"build", "--tag", r.Tag, "--file", "-", dir}, text})
}
