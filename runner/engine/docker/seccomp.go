package docker

import (
	"encoding/json"
	"fmt"

	"github.com/moby/profiles/seccomp"
)

// ownProfile is how isolation calls the profile that Create sets.
const ownProfile = "holon"

// seccompProfileText returns the filter of system calls that containers get: the
// newest default of Docker's, whatever the age of the engine. Engines before 23
// leave the way to the hypervisor open (AF_VSOCK), and before 25 io_uring.
func seccompProfileText() (string, error) {
	text, err := json.Marshal(seccomp.DefaultProfile())
	if err != nil {
		return "", fmt.Errorf("write the seccomp profile: %w", err)
	}
	return string(text), nil
}
