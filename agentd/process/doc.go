// Package process starts the commands that tools run and ends everything they
// leave behind. It is the only package of agentd that starts processes.
//
// The invariant: when [Process.Done] is closed, no process that the command
// started is alive, as far as the supervisor can tell that it is the command's,
// and no bytes are in flight. Each command gets a session and a process group of
// its own, a null standard input unless it asks for one, bounded capture, and a
// deadline that is enforced on the whole tree: SIGTERM to all of it, then
// SIGKILL after a grace. What escaped the group by setsid or a double fork is
// re-parented to the supervisor, which is PID 1 or a child subreaper, and is
// found there.
//
// Whose an orphan is, is told in one of three ways, and [Result] says which:
//
//   - By the control group it was born into, where this program may make groups
//     (version 2, writable). Only a process that may write there itself gets out.
//   - By a mark, in a program that the supervisor has to itself: a resource limit
//     that limits nothing, is inherited by everything, and is not raised again
//     without CAP_SYS_RESOURCE. Leaving the session, the environment and the
//     parents behind does not change it. A process that lowers it on purpose to
//     that of a later command is taken for that command's.
//   - By its session, the variable HOLON_COMMAND_ID in its environment, and its
//     parents. A process that hides all of these is nobody's, and lives as long
//     as the commands that were running when it was born; in a program that the
//     supervisor does not have to itself it is left alone.
//
// It does not promise confinement (that is the container's work), and it says
// nothing about the order of bytes between standard output and standard error.
package process
