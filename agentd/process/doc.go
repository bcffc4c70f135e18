// Package process starts the commands that tools run and ends everything they
// leave behind. It is the only package of agentd that starts processes.
//
// The invariant: when [Supervisor.Run] returns, no process that the command
// started is alive, as far as the supervisor can see it, and no bytes are in
// flight. Each command gets a session and a process group of its own, a null
// standard input unless one is given, bounded capture, and a deadline that is
// enforced on the whole tree: SIGTERM to the group, then SIGKILL after a grace.
// What escaped the group by setsid or a double fork is re-parented to the
// supervisor, which is PID 1 or a child subreaper, and is found there by its
// session, by the variable HOLON_COMMAND_ID in its environment, or, in a
// process that the supervisor has to itself, by belonging to nobody else.
//
// It does not promise confinement (that is the container's work), and it says
// nothing about the order of bytes between standard output and standard error.
// A process that hides its session and its environment lives, at most, as long
// as the commands that were running when it was born.
package process
