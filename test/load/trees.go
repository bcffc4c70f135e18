package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"holon/runner/agent/tools"
)

// Words for agents that work in trees. Each begins with a command that writes its turn and round to a file of the
// directory in which the agent works, and then to the file "ran" of its home.
const (
	Line   Word = "do-line"   // to a file of the turn
	Share  Word = "do-share"  // to a file that all agents write
	Drag   Word = "do-drag"   // three rounds, the second takes a while
	Commit Word = "do-commit" // and git records it in the tree
	Direct Word = "do-direct" // UseWorkspace of a repository, and again
	Apart  Word = "do-apart"  // likewise, in an isolated tree
	Leaves Word = "do-home"   // UseWorkspace of the home, and again
	Child  Word = "do-child"  // a child with a tree of its own, which does Drag
	Fork   Word = "do-fork"   // a child with a tree of its task, which does Line; the parent merges that
)

// TreeWords are those that a turn may be asked for where there are so many repositories.
func TreeWords(repositories int) []Word {
	all := []Word{Line, Line, Line, Share, Share, Drag, Commit, Leaves, Child, Child, Fork, Fork, Fork}
	for n := range repositories {
		all = append(all, of(Direct, n), of(Apart, n))
	}
	return all
}

// of is a word about a repository.
func of(w Word, n int) Word { return Word(fmt.Sprintf("%s-%d", w, n)) }

// line is a command that leaves a line in a file, and what it does then.
func line(n int, file, more string) object {
	return object{"tool": "ExecCommand", "arguments": object{"yield_time_ms": 20_000, "cmd": fmt.Sprintf(
		`l="$HOLON_TURN_ID {{round}}.%d"; mkdir -p lines && echo "$l" >> %s && echo "$l" >> %s/ran%s`, n, file,
		"/holon/workspaces/agent_home", more)}}
}

const ofTurn = "lines/$HOLON_TURN_ID"

// treeScript is what the model of every agent plays that works in trees of some repositories.
func treeScript(repositories []string) ([]byte, error) {
	use := func(arguments object) object {
		return calls(line(1, ofTurn, ""), object{"tool": "UseWorkspace", "arguments": arguments})
	}
	spawn := func(mode string, task Word) object {
		return calls(line(1, ofTurn, ""), object{"tool": tools.NameSpawn, "arguments": object{"workspace_mode": mode,
			"initial_message": string(task) + " as a child."}})
	}
	merge := calls(line(1, ofTurn, ""), object{"tool": "MergeChild",
		"arguments": object{"task_id": "{{last_user:task_[0-9a-f]+}}"}})
	merge["when"] = object{"user": object{"matches": `MergeChild with this task_id[^\n]*(\n[^\n]*){0,9}$`}}
	first := list{
		merge,
		when(Child, spawn("inherit", Drag)),
		when(Fork, spawn("worktree", Line)),
		when(Share, calls(line(1, "shared", ""))),
		when(Drag, calls(line(1, ofTurn, ""))),
		when(Commit, calls(line(1, ofTurn, "; git add -A && git -c user.name=a -c user.email=a@localhost commit -qm one"))),
		when(Leaves, use(object{"workspace_id": "agent_home"})),
		shown("", saying("It is done.", calls(line(1, ofTurn, ""), work(tools.NameCompleteWork, "last_user", nil)))),
	}
	for n, repository := range repositories {
		first = append(first, when(of(Direct, n), use(object{"path": repository})),
			when(of(Apart, n), use(object{"path": repository, "mode": "isolated"})))
	}
	second := list{
		when(Line, object{"text": "That was it."}),
		when(Drag, calls(line(1, "shared", "; sleep 0.4"))),
		calls(line(1, ofTurn, "")),
	}
	rounds := list{
		object{"cases": append(first, calls(line(1, ofTurn, ""), line(2, ofTurn, "")))},
		object{"cases": second},
		object{"cases": list{when(Drag, calls(line(1, ofTurn, ""))), object{"text": "That was it."}}},
		object{"text": "That was it."},
	}
	return json.Marshal(object{"turns": list{object{"rounds": rounds}}}) // YAML includes JSON
}

// Workspace does something with the workspaces of an agent, as a program does that does not have our types.
func (s *Server) Workspace(ctx context.Context, agent, verb string, body map[string]any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = s.stranger(ctx, "/control/agents/"+url.PathEscape(agent)+"/workspace/"+verb, "application/json", "", data)
	return err
}
