package docker

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"holon/runner/engine"
)

// overrule takes back what the image says about labels and variables of ours.
func overrule(config *container.Config, found image.InspectResponse) {
	if found.Config == nil {
		return
	}
	for key := range found.Config.Labels {
		if _, ours := config.Labels[key]; !ours && strings.HasPrefix(key, "holon.") {
			config.Labels[key] = ""
		}
	}
	for _, variable := range found.Config.Env {
		if name, _, _ := strings.Cut(variable, "="); configures(name) && !isSet(config.Env, name) {
			config.Env = append(slices.Clip(config.Env), name) // without "=" the engine removes it
		}
	}
}

// checkVolumes refuses an image that declares a volume: no limit would hold for what is written there.
func checkVolumes(spec engine.Spec, found image.InspectResponse) error {
	if found.Config == nil {
		return nil
	}
	open := openVolumes(found.Config.Volumes, spec)
	if len(open) == 0 {
		return nil
	}
	return &engine.Error{Code: engine.CodeInvalidSpec, Param: "image",
		Message: fmt.Sprintf("image %s declares volumes, which no limit covers: %.200q", spec.Image, open),
		Hint:    "use an image whose Dockerfile has no VOLUME"}
}

// CheckImage implements engine.Imager.
func (e *Engine) CheckImage(ctx context.Context, name string) error {
	_, err := e.inspectImage(ctx, engine.Spec{Image: name})
	return err
}

// inspectImage reads the image of a spec. One that is not there is CodeImageNotFound.
func (e *Engine) inspectImage(ctx context.Context, spec engine.Spec) (image.InspectResponse, error) {
	// Anything else would be a path of the engine's API.
	if _, err := reference.ParseAnyReference(spec.Image); err != nil {
		return image.InspectResponse{}, &engine.Error{Code: engine.CodeInvalidSpec, Param: "image",
			Hint:    "name an image like holon/base:latest",
			Message: fmt.Sprintf("invalid image name %.80q: %v", spec.Image, err)}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := e.api.ImageInspect(ctx, spec.Image)
	if err != nil {
		return found, wrapCreate(spec, err)
	}
	return found, nil
}

// configures reports whether the variable sets up agentd.
func configures(name string) bool { return strings.HasPrefix(name, "HOLON_") || name == "GODEBUG" }

func isSet(env []string, name string) bool {
	return slices.ContainsFunc(env, func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
}

// openVolumes are the volumes of an image in whose place spec mounts nothing.
func openVolumes(volumes map[string]struct{}, spec engine.Spec) []string {
	var open []string
	for target := range volumes {
		mounted := slices.ContainsFunc(spec.Mounts, func(m engine.Mount) bool {
			return m.Target == path.Clean(target)
		}) ||
			slices.ContainsFunc(engine.AllTmpfs(), func(t engine.Tmpfs) bool { return t.Target == path.Clean(target) })
		if !mounted {
			open = append(open, target)
		}
	}
	slices.Sort(open)
	return open
}
