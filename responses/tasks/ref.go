package tasks

import "path"

// Directories with the files of calls and tasks: that of a turn has those of its calls, the output directory has that
// of each turn, and one for tasks that no turn started.
const (
	callFiles = "tools"
	turnFiles = "turns"
	taskFiles = "tasks"
)

// OutputRef names the file with the output of a task that the turn startedBy started, "" for none, for a fact of the
// turn of: relative to the directory of that turn or else, as turns/TURN_ID/… and tasks/TASK_ID/…, to that of all
// turns. The path of the file is one within a container, which a fact does not name.
func (c *Command) OutputRef(startedBy, of string) string {
	if c.OutputPath == "" {
		return ""
	}
	dir, name := path.Split(path.Clean(c.OutputPath))
	file := path.Join(path.Base(dir), name)
	switch startedBy {
	case "":
		return path.Join(taskFiles, file)
	case of:
		return path.Join(callFiles, file)
	}
	return path.Join(turnFiles, startedBy, callFiles, file)
}
