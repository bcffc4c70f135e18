package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/runner/engine"
)

// Paths inside the container (architecture: "Directories in the container").
const (
	agentdPath  = "/holon/bin/agentd"
	hostPath    = "/holon/host"
	ipcPath     = "/holon/ipc"
	inputPath   = "/holon/input"
	outputPath  = "/holon/output"
	statePath   = "/holon/state"
	skillsPath  = "/holon/skills"
	anchorsPath = "/holon/anchors"
	// WorkspacesPath is where working trees are.
	WorkspacesPath = "/holon/workspaces"
	// ObjectsPath is where borrowed git objects are mounted; it is given to
	// workspace.Options for engines that mount.
	ObjectsPath = "/holon/objects"
)

// Labels on every container of ours.
const (
	LabelRole = "holon.role" // "agent", or "service" of what runs next to one
	LabelRun  = "holon.run"  // the run's id
	LabelHome = "holon.home" // the state home that owns it
	// LabelAgent is the id of the agent that lives in it. Such a container is not
	// a run's: the daemon of its home starts and removes it.
	LabelAgent = "holon.agent"
	// LabelConversation is the id of the conversation of a client that it serves, which is not a run's either.
	LabelConversation = "holon.session"
	// Where homes share a ledger and an engine: the ledger, the lease under which a container was made, and its fence.
	LabelLedger = "holon.ledger"
	LabelLease  = "holon.lease"
	LabelFence  = "holon.fence"
)

// planMounts lists what the container sees of the host.
func (s *Session) planMounts() []engine.Mount {
	input := filepath.Join(s.cfg.Dir, "input")
	if s.cfg.InputDir != "" {
		input = s.cfg.InputDir
	}
	mounts := []engine.Mount{
		{Source: s.cfg.Agentd, Target: agentdPath, ReadOnly: true},
		// an agentd that is not root's makes it its own; it may get another scenario
		{Source: filepath.Join(s.seam.sockets, hostDir), Target: hostPath,
			ReadOnly: s.streams || os.Geteuid() == 0 || s.server == nil, Updated: s.streams},
		{Source: filepath.Join(s.seam.sockets, agentDir), Target: ipcPath},
		{Source: input, Target: inputPath, ReadOnly: true},
		{Source: filepath.Join(s.cfg.Dir, "output"), Target: outputPath},
		{Source: filepath.Join(s.cfg.Dir, "state"), Target: statePath},
		{Source: filepath.Join(s.cfg.Dir, "skills"), Target: skillsPath, ReadOnly: true},
	}
	if s.mcpConfig != "" {
		mounts = append(mounts, engine.Mount{Source: filepath.Dir(s.mcpConfig), Target: configPath,
			ReadOnly: true})
	}
	if ownFiles(s.cfg.Engine) {
		mounts = append(mounts, accountMounts(s.cfg.Dir)...)
	}
	mounts = append(mounts, s.agentMounts()...)
	if s.tree != nil {
		mounts = append(mounts, engine.Mount{Source: s.tree.Dir(), Target: s.treePath()})
		for _, dir := range s.tree.ObjectDirs() {
			mounts = append(mounts, engine.Mount{Source: dir.HostPath, Target: dir.ContainerPath, ReadOnly: true})
		}
	}
	return mounts
}

func (s *Session) treePath() string { return WorkspacesPath + "/" + s.cfg.TreeName }

// treeDir is the working tree as the program sees it: the one that was made for
// the session, or else the agent's home; "" when there is neither.
func (s *Session) treeDir() string {
	switch {
	case s.tree != nil:
		return s.inside(s.treePath())
	case s.cfg.AgentHome != "":
		return s.inside(agentHomePath)
	}
	return ""
}

// inside returns how the program sees a path of the container.
func (s *Session) inside(path string) string { return s.cfg.Engine.Path(s.mounts, path) }

// spec is the container. Limits and isolation that it leaves out are the
// strict defaults of package engine.
func (s *Session) spec() engine.Spec {
	labels := map[string]string{LabelRole: "agent", LabelRun: s.cfg.ID}
	for k, v := range s.cfg.Labels {
		labels[k] = v
	}
	var env []string
	if ownFiles(s.cfg.Engine) { // and so a home
		env = append(env, "HOME="+engine.Home)
	}
	// Variables, because a developer ends a server by a pattern of its command line.
	set := func(name, value string) { env = append(env, "HOLON_"+name+"="+value) }
	set("SOCKET", s.inside(ipcPath)+"/agent.sock")
	set("INPUT_DIR", s.inside(inputPath))
	set("OUTPUT_DIR", s.inside(outputPath))
	set("SHOWN_OUTPUT_DIR", outputPath) // a program without a file system of its own would name paths of the host
	set("STATE_DIR", s.inside(statePath))
	set("SKILLS_DIR", s.inside(skillsPath))
	set("WORKSPACE_DIR", s.workspaceRoot())
	set("MODEL", s.cfg.Model)
	set("GRACE", turnGrace.String())
	set("MAX_OUTPUT_BYTES", "0") // every turn of ours says how much it may leave
	where := func(has bool, name, value string) {
		if has {
			set(name, value)
		}
	}
	where(s.cfg.AgentHome != "", "AGENT_HOME", s.inside(agentHomePath))
	where(s.cfg.Anchors != "", "ANCHORS_DIR", s.inside(anchorsPath))
	// later turns of an agent's session may need models
	where(s.gateway != nil || s.cfg.AgentHome != "", "MODEL_SOCKET", s.inside(hostPath)+"/"+modelSocket)
	where(s.hostTools != nil, "HOST_SOCKET", s.inside(hostPath)+"/"+toolSocket)
	where(s.mcpConfig != "", "MCP_CONFIG", s.inside(configPath)+"/"+mcpConfig)
	where(s.streams || len(s.services.asked) > 0, "SERVICES", s.serviceAddresses())
	where(s.egress != nil, "EGRESS_SOCKET", s.inside(hostPath)+"/"+egressSocket)
	where(len(s.cfg.Providers) > 0, "PROVIDERS", strings.Join(s.cfg.Providers, ","))
	where(len(s.cfg.Env) > 0, "PASS_ENV", envNames(s.cfg.Env))
	where(len(s.cfg.SecretEnv) > 0, "SECRET_ENV", strings.Join(s.cfg.SecretEnv, ","))
	env = append(append(env, s.cfg.Env...), s.cfg.AgentEnv...) // of two values the first counts
	portion, _ := portions(len(s.services.asked))
	return engine.Spec{
		Name: "holon-" + s.cfg.ID, Image: s.cfg.Image, Labels: labels, Args: []string{s.inside(agentdPath)}, Env: env,
		Mounts: s.mounts,
		User:   s.cfg.User, Server: s.server, Runtime: s.cfg.Runtime, Memory: s.cfg.Memory, NanoCPUs: s.cfg.NanoCPUs,
		Network: s.cfg.Network, Hosts: s.serviceNames(), Portion: portion, Sockets: s.socketsInside(),
		Late: s.streams && s.shares(),
	}
}

// workspaceRoot is the directory beneath which turns may work.
func (s *Session) workspaceRoot() string {
	dir := s.treeDir()
	switch {
	case s.cfg.Workspaces != "" && ownFiles(s.cfg.Engine): // else they are in the agent's home
		return WorkspacesPath
	case dir != "":
		return dir
	}
	return s.inside(outputPath)
}

func envNames(env []string) string {
	names := make([]string, len(env))
	for i, kv := range env {
		names[i], _, _ = strings.Cut(kv, "=")
	}
	return strings.Join(names, ",")
}

// checkConfined asks the engine what it will enforce, before anything runs, and
// refuses what is weaker than asked for: a promise that an engine drops in
// silence is worse than none. Engines without a file system of their own confine
// nothing, and say so elsewhere.
func (s *Session) checkConfined(ctx context.Context) error {
	if !ownFiles(s.cfg.Engine) {
		return nil
	}
	made, err := s.cfg.Engine.Inspect(ctx, s.handle)
	if err != nil {
		return err
	}
	weak := engine.Weak(made.Isolation, s.Spec)
	if s.server == nil {
		weak = append(weak, "privilege_separation")
	}
	weak = slices.DeleteFunc(weak, func(name string) bool { return slices.Contains(s.cfg.Accept, name) })
	if len(weak) == 0 {
		return nil
	}
	var found []string
	for name, axis := range made.Isolation.Axes() {
		if slices.Contains(weak, name) {
			found = append(found, fmt.Sprintf("%s is %s (%s)", name, axis.Level, visible.OneLine(axis.Value, 60)))
		}
	}
	return &Error{Code: codeNotConfined, Param: "--accept-weaker",
		Message: "the engine does not confine as it should: " + strings.Join(found, ", "),
		Hint: "use another engine or --runtime, or --accept-weaker " + strings.Join(weak, ",") +
			" if that is what you want"}
}

// AxisNames are the names that Config.Accept may hold.
func AxisNames() (names []string) {
	for name := range (engine.Isolation{}).Axes() {
		names = append(names, name)
	}
	return names
}
