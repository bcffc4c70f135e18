package runner

import (
	"path/filepath"
	"slices"
	"strings"

	"holon/runner/engine"
)

// Paths inside the container (architecture: "Directories in the container").
const (
	agentdPath    = "/holon/bin/agentd"
	hostPath      = "/holon/host"
	ipcPath       = "/holon/ipc"
	inputPath     = "/holon/input"
	outputPath    = "/holon/output"
	statePath     = "/holon/state"
	skillsPath    = "/holon/skills"
	workspacePath = "/holon/workspaces"
	// ObjectsPath is where borrowed git objects are mounted; it is given to
	// workspace.Options for engines that mount.
	ObjectsPath = "/holon/objects"
)

// Labels on every container of ours.
const (
	LabelRole = "holon.role" // "agent"
	LabelRun  = "holon.run"  // the run's id
	LabelHome = "holon.home" // the state home that owns it
	// LabelAgent is the id of the agent that lives in it. Such a container is no
	// run's: the daemon of its home starts and removes it.
	LabelAgent = "holon.agent"
)

// planMounts lists what the container sees of the host.
func (s *Session) planMounts() []engine.Mount {
	input := filepath.Join(s.cfg.Dir, "input")
	if s.cfg.InputDir != "" {
		input = s.cfg.InputDir
	}
	mounts := []engine.Mount{
		{Source: s.cfg.Agentd, Target: agentdPath, ReadOnly: true},
		{Source: filepath.Join(s.sockets, hostDir), Target: hostPath, ReadOnly: true},
		{Source: filepath.Join(s.sockets, agentDir), Target: ipcPath},
		{Source: input, Target: inputPath, ReadOnly: true},
		{Source: filepath.Join(s.cfg.Dir, "output"), Target: outputPath},
		{Source: filepath.Join(s.cfg.Dir, "state"), Target: statePath},
		{Source: filepath.Join(s.cfg.Dir, "skills"), Target: skillsPath, ReadOnly: true},
	}
	if s.mcpConfig != "" {
		mounts = append(mounts, engine.Mount{Source: s.mcpConfig, Target: mcpConfigPath, ReadOnly: true})
	}
	if ownFiles(s.cfg.Engine) {
		mounts = append(mounts, accountMounts(s.cfg.Dir)...)
	}
	mounts = append(mounts, s.agentHomeMounts()...)
	if s.tree != nil {
		mounts = append(mounts, engine.Mount{Source: s.tree.Dir(), Target: s.treePath()})
		for _, dir := range s.tree.ObjectDirs() {
			mounts = append(mounts, engine.Mount{Source: dir.HostPath, Target: dir.ContainerPath, ReadOnly: true})
		}
	}
	return mounts
}

func (s *Session) treePath() string { return workspacePath + "/" + s.cfg.TreeName }

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
	workspaces := s.inside(outputPath)
	if dir := s.treeDir(); dir != "" {
		workspaces = dir
	}
	args := []string{s.inside(agentdPath), "serve",
		"--socket", s.inside(ipcPath) + "/agent.sock", "--input-dir", s.inside(inputPath), "--output-dir",
		s.inside(outputPath),
		"--state-dir", s.inside(statePath), "--skills-dir", s.inside(skillsPath), "--workspace-dir", workspaces,
		"--model", s.model(), "--grace", turnGrace.String(),
		"--max-output-bytes", "0"} // every turn of ours says how much it may leave
	if s.cfg.AgentHome != "" {
		args = append(args, "--agent-home", s.inside(agentHomePath))
	}
	if s.gateway != nil || s.cfg.AgentHome != "" { // whose later turns may need it
		args = append(args, "--model-socket", s.inside(hostPath)+"/"+modelSocket)
	}
	if s.hostTools != nil {
		args = append(args, "--host-socket", s.inside(hostPath)+"/"+toolSocket)
	}
	if s.mcpConfig != "" {
		args = append(args, "--mcp-config", s.inside(mcpConfigPath))
	}
	if s.egress != nil {
		args = append(args, "--egress-socket", s.inside(hostPath)+"/"+egressSocket)
	}
	if len(s.cfg.Providers) > 0 {
		args = append(args, "--providers", strings.Join(s.cfg.Providers, ","))
	}
	env := append(slices.Clone(s.cfg.Env), s.cfg.AgentEnv...)
	if ownFiles(s.cfg.Engine) { // and processes, and that directory
		args = append(args, "--host-only")
		env = append([]string{"HOME=" + engine.Home}, env...)
	}
	if names := envNames(s.cfg.Env); names != "" {
		env = append(env, "HOLON_PASS_ENV="+names)
	}
	if len(s.cfg.SecretEnv) > 0 {
		env = append(env, "HOLON_SECRET_ENV="+strings.Join(s.cfg.SecretEnv, ","))
	}
	return engine.Spec{
		Name: "holon-" + s.cfg.ID, Image: s.cfg.Image, Labels: labels, Args: args, Env: env, Mounts: s.mounts,
		User: s.cfg.User, Runtime: s.cfg.Runtime, Memory: s.cfg.Memory, NanoCPUs: s.cfg.NanoCPUs,
		Network: s.cfg.Network,
	}
}

func envNames(env []string) string {
	names := make([]string, len(env))
	for i, kv := range env {
		names[i], _, _ = strings.Cut(kv, "=")
	}
	return strings.Join(names, ",")
}
