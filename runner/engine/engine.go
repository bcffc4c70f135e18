// Package engine defines the verbs by which the host runs one program in a
// place of its own, and what that place guarantees.
//
// There are three engines: runner/engine/docker confines the program in a
// container, runner/engine/kubernetes in a Pod of a cluster, runner/engine/local
// runs it as a child process and confines nothing. All pass the suite in
// test/enginetest.
//
// The invariant: what a zero Spec gets is the strict set of defaults in
// defaults.go; everything looser is a named field of Spec and shows in the
// Isolation that Inspect reads back from the engine, never from the Spec.
//
// It does not promise that a program is ready when Start returns (probe its
// socket), nor any order between calls on different handles. Handles and specs
// are plain values: nothing here has to be kept open for a program to live on.
package engine

import (
	"context"
	"time"
)

// Engine runs programs. All methods are safe for concurrent use. A cancelled
// context ends a call soon with the context's error in the chain; every other
// error of an engine has an *Error in its chain.
type Engine interface {
	// Name is "docker", "kubernetes" or "local", the value of Handle.Engine.
	Name() string

	// Check asks whether the engine can be used now and what it is. It is a
	// diagnosis, not a step of starting a program: Create reports the same
	// errors (CodeUnreachable, CodePermissionDenied) without the extra calls.
	Check(ctx context.Context) (Info, error)

	// Path returns the name by which the program sees the file that mounts
	// put at the path target: target itself where there is a file system of
	// its own, the path on the host where there is none. Arguments and
	// environment of a Spec must be written with it.
	Path(mounts []Mount, target string) string

	// Create makes everything ready for Start and runs nothing. On error,
	// cancellation included, nothing is left behind. A name in use is
	// CodeConflict, an image that is not there CodeImageNotFound: nothing is
	// pulled. The caller stores the handle before it starts the program, and
	// owns it until Remove.
	Create(ctx context.Context, spec Spec) (Handle, error)

	// Start runs the program. A program that was started before is
	// CodeConflict. On error the handle is still there to be removed.
	Start(ctx context.Context, h Handle) error

	// Wait blocks until the program has run and is gone, and says how it
	// ended. It may be called at any time, before Start and after the end
	// too, and by any number of callers. The context is the only time limit.
	// When the handle is removed meanwhile the answer is either the exit or
	// CodeNotFound.
	Wait(ctx context.Context, h Handle) (Exit, error)

	// Stop sends SIGTERM to the program, waits up to grace, then kills it and
	// all that it started. It returns when the program is gone. A program
	// that is not running, or a handle that is not there, is success. Zero
	// grace still sends SIGTERM first, and kills at once.
	Stop(ctx context.Context, h Handle, grace time.Duration) error

	// Remove ends the program by force if it runs and deletes all that
	// Create made, anonymous volumes included; bind-mounted sources stay. A
	// handle that is not there is success.
	Remove(ctx context.Context, h Handle) error

	// List returns what this engine holds with all the given labels, running
	// or not, by whichever process it was created, oldest first. At least one
	// label is required, so that a caller can't list (and then remove) the
	// containers of others.
	List(ctx context.Context, labels map[string]string) ([]Summary, error)

	// Inspect reads back the state and the isolation in force. CodeNotFound
	// when the handle is not there. This is also how a host that was
	// restarted takes up a stored handle again.
	Inspect(ctx context.Context, h Handle) (State, error)

	// Logs returns the last limit bytes of what the program wrote to stdout
	// and stderr; engines keep a bounded amount, and not the order between the
	// two. The bytes are the program's:
	// untrusted, not valid UTF-8, with escape codes.
	Logs(ctx context.Context, h Handle, limit int64) ([]byte, error)

	// Close releases connections. It waits for what the engine itself
	// started; programs of the docker engine go on, those of the local engine
	// are killed (they die with the host process in any case).
	Close() error
}

// Pauser is what an engine has that can hold a program still: none of its
// processes runs, its memory stays. A paused program counts as running for every
// other verb: Stop gives it its SIGTERM and its grace, Remove needs neither, Wait
// goes on waiting. Clients of the program wait until it is resumed.
type Pauser interface {
	// Pause stops the program from running. One that is paused is success, one that
	// does not run CodeConflict.
	Pause(ctx context.Context, h Handle) error

	// Resume lets it continue. It succeeds for a container in any other state; an
	// absent one is CodeNotFound.
	Resume(ctx context.Context, h Handle) error
}

// Imager is what an engine has whose programs run in images.
type Imager interface {
	// CheckImage refuses an image with which Create would be refused: one that is not there is CodeImageNotFound, what
	// cannot name one CodeInvalidSpec.
	CheckImage(ctx context.Context, name string) error

	// Ports returns the TCP ports at which the program of an image listens, as the image says, sorted. Errors are those
	// of CheckImage.
	Ports(ctx context.Context, image string) ([]int, error)
}

// Sharer is what an engine has that other homes use, too, and that tells theirs apart: List returns what one home made.
type Sharer interface {
	// Others returns what other homes made, like List.
	Others(ctx context.Context, labels map[string]string) ([]Summary, error)
}

// HandleVersion is the version that this code writes into a Handle.
const HandleVersion = 1

// Handle names one created program. It is a value that may be stored and used
// by another process after a restart.
type Handle struct {
	Version int    `json:"version"`
	Engine  string `json:"engine"`
	ID      string `json:"id"`
	Name    string `json:"name"`
	Link    string `json:"link,omitempty"` // how it is reached: LinkStream, or "" for mounts
}

// Exit says how a program ended. Code is its exit code, 128+n when signal n
// ended it, and -1 when the end was not observed (Error then says why).
// OOMKilled is set when the engine knows that the kernel killed for lack of
// memory inside it; an engine may lose that notice, so false with a Code of 137
// leaves the cause open.
type Exit struct {
	Code      int    `json:"code"`
	OOMKilled bool   `json:"oom_killed"`
	Error     string `json:"error,omitempty"`
}

// Status is the life cycle: created → running ⇄ paused → exited.
type Status string

// The states of a program.
const (
	StatusCreated Status = "created"
	StatusRunning Status = "running"
	StatusPaused  Status = "paused"
	StatusExited  Status = "exited"
)

// Summary is one line of List. CreatedAt has a precision of one second.
type Summary struct {
	Handle    Handle            `json:"handle"`
	Labels    map[string]string `json:"labels,omitempty"`
	Status    Status            `json:"status"`
	CreatedAt time.Time         `json:"created_at"`
}

// State is what Inspect reads back. Exit is nil until the program has ended.
// ImageID is the digest of the image, Runtime what runs the program in the
// engine, such as "runc".
type State struct {
	Handle    Handle            `json:"handle"`
	Status    Status            `json:"status"`
	Exit      *Exit             `json:"exit,omitempty"`
	ImageID   string            `json:"image_id,omitempty"`
	Runtime   string            `json:"runtime,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Isolation Isolation         `json:"isolation"`
}

// ImageCleaner is what an engine has that makes images of its own.
type ImageCleaner interface {
	// OldImages returns the names of those that no container has and that are older than the engine keeps them. With
	// remove they are removed.
	OldImages(ctx context.Context, remove bool) ([]string, error)
}

// The values of Info.Product.
const (
	ProductDocker  = "Docker Engine"
	ProductDesktop = "Docker Desktop"
	ProductPodman  = "Podman"

	ProductKubernetes = "Kubernetes"
)

// Info describes a usable engine. Fields that an engine does not have are empty.
type Info struct {
	Engine        string
	Product       string // what answers at the engine's address
	Name          string
	Version       string
	APIVersion    string
	CgroupVersion string
	Runtime       string
	Rootless      bool
}
