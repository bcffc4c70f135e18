package state

// HeldContainer is how far the container of an agent is, by the record.
type HeldContainer struct {
	ID    string         `json:"container_id"` // the engine's
	Phase ContainerPhase `json:"phase"`
}

// ContainerPhase is how far a container is.
type ContainerPhase string

// The phases of a container, in their order. The last ones end it.
const (
	ContainerCreated ContainerPhase = "created"
	ContainerStarted ContainerPhase = "started"
	ContainerReady   ContainerPhase = "ready"   // agentd answers
	ContainerExited  ContainerPhase = "exited"  // it is still there
	ContainerLost    ContainerPhase = "lost"    // it is gone, and how it ended is not known
	ContainerRemoved ContainerPhase = "removed" // it is gone
)

// ContainerChange tells that the container of an agent has come to a phase.
type ContainerChange struct {
	HeldContainer
	Engine    string
	Image     string
	Digest    string     // of the image, of Started
	Runtime   string     // of the engine, likewise
	Isolation *Isolation // in force, likewise
	ExitCode  int        // of Exited
	OOMKilled bool       // likewise
	Reason    string     // of Lost and Removed; "": none is known
}
