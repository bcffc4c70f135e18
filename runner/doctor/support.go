package doctor

import (
	"context"
	"runtime"

	"holon/internal/platform"
	"holon/runner/engine"
)

// checkSystem says whether runs can be started on this system at all.
func (e *examination) checkSystem(context.Context) []Result {
	return one(judgeSystem(runtime.GOOS, runtime.GOARCH))
}

func judgeSystem(system, arch string) Result {
	if system != "linux" {
		return failed(platform.NeedsLinux{What: "a run (this is " + system + "/" + arch + ")"})
	}
	return seen("%s/%s", system, arch)
}

// checkSupport reports the properties of the engine before anything is tried with it.
func (e *examination) checkSupport(context.Context) []Result {
	if e.place.info.Product == "" {
		return skipped("the engine is holon's own")
	}
	return one(judgeEngine(e.place.info))
}

// judgeEngine holds what docs/reference/platforms.md says of engines, with the reasons.
func judgeEngine(info *engine.Info) Result {
	const other = "use a Docker Engine that runs as root on this machine: set DOCKER_HOST"
	switch {
	case info.Product == engine.ProductDesktop:
		return seen("Docker Desktop does not work: its containers are in a virtual machine, where processes have other "+
			"numbers, so holon cannot tell whether agentd is at the other end of a socket").but(statusFailed, other+
			", or run holon in a virtual machine with an engine of its own")
	case info.Product == engine.ProductPodman && info.Rootless:
		return seen("rootless Podman does not work: %s; %s", ofPodman, ofUserNamespace).but(statusFailed, other)
	case info.Product == engine.ProductPodman:
		return seen("Podman works only with less isolation: %s", ofPodman).but(statusWarning, other)
	case info.Rootless:
		return seen("rootless Docker does not work: %s", ofUserNamespace).but(statusFailed, other)
	}
	return seen("%s as root is what holon is tested with", info.Product)
}

const (
	ofPodman = "it does not show, or does not apply, part of the limits that are asked for (tried with 4.3), and a run " +
		"is refused unless it accepts that"
	ofUserNamespace = "users of its containers have other numbers here, so the agent cannot use your files, nor you its"
)
