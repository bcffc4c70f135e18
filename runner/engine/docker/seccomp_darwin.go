package docker

import (
	"holon/internal/platform"
	"holon/runner/engine"
)

// ownProfile is how isolation calls the profile that Create sets.
const ownProfile = "holon"

// seccompProfileText fails: the profile is made of the system calls of Linux, and without it no container is made.
func seccompProfileText() (string, error) {
	return "", &engine.Error{Code: engine.CodeUnreachable, Param: "engine", Message: "a container cannot be confined",
		Err: platform.NeedsLinux{What: "the filter of system calls"}}
}
