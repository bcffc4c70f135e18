package docker

import _ "embed"

// ownProfile is how isolation calls the profile that Create sets.
const ownProfile = "holon"

// seccompText is the filter of system calls that containers get, as JSON. A test makes it of the default of Docker's,
// for which there is code on Linux alone: go test ./runner/engine/docker -run TestSeccompText -args -update.
//
//go:embed seccomp.json
var seccompText string
