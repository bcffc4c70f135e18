package readmodel

import (
	"cmp"
	"strings"
)

// Container is what an agent works in.
type Container struct {
	ContainerID string `json:"container_id"`
	Status      string `json:"status"` // created, started, ready, exited, lost, removed
	Engine      string `json:"engine"`
	Image       string `json:"image,omitempty"`
	ImageDigest string `json:"image_digest,omitempty"`
	Network     string `json:"network,omitempty"`
	Mounts      string `json:"mounts,omitempty"`
	ExitCode    *int64 `json:"exit_code"` // null: it runs, or that is not known
	OOMKilled   *bool  `json:"oom_killed,omitempty"`
	Reason      string `json:"reason,omitempty"`
	At          string `json:"at"`
}

// applyContainer takes what became of the container. What is told of one that the agent did not get is left out.
func (f *Fold) applyContainer(e fact) {
	phase, ok := strings.CutPrefix(e.Type, "holon.container.")
	id := e.text("container_id")
	if !ok || phase != "created" && (f.container == nil || f.container.ContainerID != id) {
		return
	}
	var c Container
	if phase != "created" {
		c = *f.container
	}
	c.ContainerID, c.Status, c.At = id, phase, clip(e.Timestamp, maxID)
	c.Engine, c.Reason = or(cmp.Or(e.text("engine"), c.Engine)), e.text("reason")
	c.Image, c.ImageDigest = cmp.Or(e.text("image"), c.Image), cmp.Or(e.text("image_digest"), c.ImageDigest)
	c.Network, c.Mounts = cmp.Or(e.text("network"), c.Network), cmp.Or(e.text("mounts"), c.Mounts)
	if phase == "exited" {
		code := e.number("exit_code")
		c.ExitCode, c.OOMKilled = &code, e.flag("oom_killed")
	}
	f.container = &c
}
