package docker

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"holon/runner/engine"
)

// preparing are the capabilities with which the entry points of images, as root, give files to another user and become
// that user.
var preparing = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"}

// asImage completes the request for a service: its user is the image's, and what it may write is in memory.
func asImage(config *container.Config, host *container.HostConfig, spec engine.Spec,
	found image.InspectResponse) {
	user, dirs := "", slices.Clone(spec.Service.Dirs)
	if found.Config != nil {
		user = found.Config.User
		for volume := range found.Config.Volumes {
			dirs = append(dirs, path.Clean(volume))
		}
	}
	owner, isRoot := ownerOf(user)
	if isRoot {
		host.CapAdd = preparing
	}
	size := spec.Memory
	if size == engine.Unlimited {
		size = engine.DefaultMemory
	}
	for _, t := range engine.AllTmpfs() {
		t.Size = min(t.Size, size)
		host.Tmpfs[t.Target] = tmpfsOptions(t, owner)
	}
	for _, dir := range dirs {
		host.Tmpfs[dir] = tmpfsOptions(engine.Tmpfs{Target: dir, Size: size}, owner)
	}
}

// ownerOf returns the owner of what the user of an image may write, "" where it is root or has a name that only the
// image can look up.
func ownerOf(user string) (owner string, isRoot bool) {
	name, group, _ := strings.Cut(user, ":")
	uid, err := strconv.ParseUint(cmp.Or(name, "0"), 10, 31)
	if err != nil || uid == 0 {
		return "", name == "root" || err == nil
	}
	gid, _ := strconv.ParseUint(group, 10, 31) // by its name it is not known, and the user is enough
	return fmt.Sprintf("uid=%d,gid=%d", uid, gid), false
}

// Ports implements engine.Imager.
func (e *Engine) Ports(ctx context.Context, name string) (ports []int, err error) {
	found, err := e.inspectImage(ctx, engine.Spec{Image: name})
	if err != nil || found.Config == nil {
		return nil, err
	}
	for port := range found.Config.ExposedPorts {
		number, protocol, _ := strings.Cut(port, "/")
		if n, err := strconv.ParseUint(number, 10, 16); err == nil && n > 0 && cmp.Or(protocol, "tcp") == "tcp" {
			ports = append(ports, int(n))
		}
	}
	slices.Sort(ports)
	return ports, nil
}
