// Package process starts the commands that tools run and ends everything they leave behind. It is the only package of
// agentd that starts processes.
//
// The invariant: when [Process.Done] is closed, no process of the command is alive, as far as the supervisor can
// attribute it, and no bytes are in flight. Each command gets a session and a process group of its own, a null standard
// input unless it asks for one, bounded capture, and a deadline that is enforced on the whole tree: SIGTERM to all of
// it, then SIGKILL after a grace period. Processes that left the group by setsid or a double fork are re-parented to
// the supervisor, which is PID 1 or a child subreaper, and are found there.
//
// A process is attributed by its session, then by its parent. One that left both, as a daemon does, is unowned: it ends
// with the last of the commands that ran when it was born. So what a command leaves running ends with it, but a daemon
// may live as long as a managed task that was running already. A supervisor that shares its program leaves unowned
// processes alone.
//
// The package does not promise confinement, which is the container's work, and says nothing about the order of bytes
// between standard output and standard error.
package process
