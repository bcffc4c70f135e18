package load

import (
	"encoding/json"
	"fmt"

	"holon/runner/agent/tools"
	"holon/test/torture/check"
)

// Word is what a message says that its turn should do. A message without one is
// answered with one command.
type Word string

// Words of a script. All but Quick and Fail begin with a command that writes its turn
// and round to the file "ran" in the agent's home.
const (
	Run   Word = "do-run"
	Quick Word = "do-quick" // says something, runs nothing
	Slow  Word = "do-slow"  // a command that takes a while
	Long  Word = "do-long"  // three rounds with a command each
	Fail  Word = "do-fail"  // the model refuses
	Rest  Word = "do-rest"  // Sleep for a moment: a tick follows
	Wait  Word = "do-wait"  // Sleep until something comes
	More  Word = "do-more"  // Enqueue one message that says Run
	Task  Word = "do-task"  // a command that goes on when the turn has ended: a message tells of its end
	Work  Word = "do-work"  // a work item: made, picked and completed with a report
	Block Word = "do-block" // a work item that is blocked, and completed when it is looked at again
	Carry Word = "do-carry" // a work item that is picked, and completed by the turn that goes on with it
	Leave Word = "do-leave" // a work item that is only made: the turn that shows it completes it
	Pair  Word = "do-pair"  // likewise, and that turn completes another one in the same round
	Idle  Word = "do-idle"  // a work item for which turns do nothing, until the operator completes it
)

// Words are those that a turn of any agent may be asked for. All but Idle come to an end by themselves.
func Words() []Word {
	return []Word{Run, Quick, Slow, Long, Fail, Rest, Wait, More, Task, Work, Block, Carry, Leave, Pair}
}

// RestFor is how long Rest rests, in milliseconds.
const RestFor = 150

type (
	object = map[string]any
	list   = []any
)

// mark is a command that leaves a line: turn, round, and a number within it.
func mark(n int, more string) object {
	return object{"tool": "ExecCommand",
		"arguments": object{"cmd": fmt.Sprintf(`echo "$HOLON_TURN_ID {{round}}.%d" >> ran%s`, n, more),
			"yield_time_ms": 20_000}}
}

// work calls a tool for the first work item that a text names.
func work(tool, text string, arguments object) object {
	all := object{"work_item_id": "{{" + text + ":work_[0-9a-f]+}}"}
	for name, value := range arguments {
		all[name] = value
	}
	return object{"tool": tool, "arguments": all}
}

func create(objective string) object {
	return object{"tool": tools.NameCreateWork, "arguments": object{"objective": objective}}
}

func saying(text string, round object) object {
	round["text"] = text
	return round
}

// shown plays a round for a turn about a work item with that objective, "" for any.
func shown(objective string, round object) object {
	matches := `\{"work_item_id":"work_[0-9a-f]+"`
	if objective != "" {
		matches += `[^\n]*"objective":"` + objective + `"`
	}
	round["when"] = object{"user": object{"matches": matches + `[^\n]*(\n[^\n]*){0,2}$`}}
	return round
}

// when plays a round for a message that says a word. The message stands at the
// end of the input of the model; the parts about earlier messages have the words of those.
func when(w Word, round object) object {
	round["when"] = object{"user": object{"matches": string(w) + `[^\n]*(\n[^\n]*){0,2}$`}}
	return round
}

func calls(c ...object) object {
	all := list{}
	for _, one := range c {
		all = append(all, one)
	}
	return object{"calls": all}
}

// script is what the model of every agent plays, in every turn.
func script() ([]byte, error) {
	first := list{
		when(Quick, object{"text": "Said."}),
		when(Fail, object{"error": object{"status": 400, "message": "the script says so"}}),
		when(Slow, calls(mark(1, "; sleep 0.4"))),
		when(Long, calls(mark(1, ""))),
		when(Rest, calls(mark(1, ""), object{"tool": tools.NameSleep,
			"arguments": object{"duration_ms": RestFor, "reason": "a moment"}})),
		when(Wait, calls(mark(1, ""), object{"tool": tools.NameSleep,
			"arguments": object{"reason": "whatever comes"}})),
		when(More, calls(mark(1, ""), object{"tool": tools.NameEnqueue,
			"arguments": object{"text": string(Run) + " of a follow-up"}})),
		when(Task, calls(mark(1, ""), object{"tool": "ExecCommand",
			"arguments": object{"cmd": "sleep 0.$((RANDOM % 8)); echo built", "yield_time_ms": 1}})),
		when(Work, calls(mark(1, ""), create("an item"))),
		when(Block, calls(mark(1, ""), create("an item"))),
		when(Carry, calls(mark(1, ""), create("an item"))),
		when(Leave, calls(mark(1, ""), create("an item"))),
		when(Pair, calls(mark(1, ""), create(check.Pair))),
		when(Idle, calls(mark(1, ""), create(check.Idle))),
		shown(check.Idle, object{"text": "There is nothing to do."}),
		shown(check.Pair, calls(mark(1, ""), work(tools.NamePickWork, "last_user", nil), create(check.Pair))),
		shown("", saying("It is done.", calls(mark(1, ""), work(tools.NameCompleteWork, "last_user", nil)))),
		calls(mark(1, ""), mark(2, "")),
	}
	end := object{"text": "That was it."}
	rounds := list{
		object{"cases": first},
		object{"cases": list{when(Long, calls(mark(1, "; sleep 0.1"))),
			when(Work, calls(work(tools.NamePickWork, "last_output", nil))),
			when(Carry, calls(work(tools.NamePickWork, "last_output", nil))),
			when(Idle, calls(work(tools.NamePickWork, "last_output", nil))),
			when(Block, calls(work(tools.NameUpdateWork, "last_output",
				object{"blocked_by": "x", "recheck_after": 300}))),
			shown(check.Pair, saying("Both are done.", calls(work(tools.NameCompleteWork, "last_user", nil),
				work(tools.NameCompleteWork, "last_output", nil)))), end}},
		object{"cases": list{when(Long, calls(mark(1, ""))),
			when(Work, saying("It is done.", calls(work(tools.NameCompleteWork, "last_output", nil)))), end}},
		end,
	}
	return json.Marshal(object{"turns": list{object{"rounds": rounds}}}) // YAML includes JSON
}
