// Package process starts the commands that tools run and ends everything they leave behind. It is the only package of
// agentd that starts processes.
//
// The invariant: when [Process.Done] is closed, no process of the command is alive, as far as the supervisor can
// attribute it, and no bytes are in flight. Each command gets a session and a process group of its own, a null standard
// input unless it asks for one, bounded capture, and a deadline that is enforced on the whole tree: SIGTERM to all of
// it, then SIGKILL after a grace period. Processes that left the group by setsid or a double fork are re-parented to
// the supervisor, which is PID 1 or a child subreaper, and are found there.
//
// An orphan is attributed by its [mark]: a resource limit that limits nothing, is inherited by every descendant and
// cannot be raised again without CAP_SYS_RESOURCE. Leaving the session, the environment and the parents behind does not
// change it, and it needs no privilege, so it holds in a container without capabilities or writable control groups. A
// process that lowers the limit on purpose to that of a later command is attributed to that command. A process without
// a known mark is attributed by its session, then by its parent. If these say nothing either, it ends with the last of
// the commands that ran when it was born; a supervisor that shares its program leaves it alone.
//
// The package does not promise confinement, which is the container's work, and says nothing about the order of bytes
// between standard output and standard error.
package process
