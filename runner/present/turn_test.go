package present_test

import (
	"strings"
	"testing"

	"holon/responses"
	"holon/runner/present"
	"holon/test/expect"
)

// stream is a turn of a session that thinks, says what it does, runs a command that fails, asks its client and answers.
const stream = `{"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}
{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","delta":"The tests "}
{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","delta":"first."}
{"type":"response.output_item.done","item":{"type":"reasoning","id":"rs_1","status":"completed","summary":[]}}
{"type":"response.output_text.delta","item_id":"msg_1","delta":"I run "}
{"type":"response.output_text.delta","item_id":"msg_1","delta":"the **tests**."}
{"type":"response.output_item.done","item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"I run the **tests**.","annotations":[]}]}}
{"type":"response.output_item.added","item":{"type":"holon:tool_call","id":"tc_1","status":"in_progress","call_id":"c1","name":"ExecCommand","arguments":"{\"cmd\":\"make test\"}","result":null,"output":""}}
{"type":"response.output_item.done","item":{"type":"holon:tool_call","id":"tc_1","status":"completed","call_id":"c1","name":"ExecCommand","arguments":"{\"cmd\":\"make test\"}","result":{"summary_text":"command exited with status 2","result":{"exit_status":2,"stdout_preview":"a\nb\n","stderr_preview":null},"error":null},"output":"b"}}
{"type":"response.output_item.added","item":{"type":"function_call","id":"fc_1","status":"in_progress","call_id":"c2","name":"weather","arguments":""}}
{"type":"response.output_item.done","item":{"type":"function_call","id":"fc_1","status":"completed","call_id":"c2","name":"weather","arguments":"{\"city\":\"Bern\"}"}}
{"type":"response.output_text.delta","item_id":"msg_2","delta":"They fa"}
{"type":"response.output_item.done","item":{"type":"message","id":"msg_2","status":"completed","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"They fail.","annotations":[]}]}}
`

// A turn of a session is rows like those of an agent.
func TestTurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ end, want string }{
		"completed": {`{"type":"response.completed","response":{"id":"resp_1","status":"completed","created_at":100,"completed_at":103,"usage":{"input_tokens":7,"output_tokens":3,"total_tokens":10}}}`,
			"runtime               turn completed: 3s: 2 tool calls, 7 tokens in, 3 out\n"},
		"failed": {`{"type":"response.failed","response":{"id":"resp_1","status":"failed","error":{"code":"model_error","message":"no key"}}}`,
			"runtime               turn failed: no key failed\n"},
		"incomplete": {`{"type":"response.incomplete","response":{"id":"resp_1","status":"incomplete","incomplete_details":{"reason":"max_tool_calls"}}}`,
			"runtime               turn incomplete: max_tool_calls failed\n"},
		"cut off": {`{"type":"error","error":{"code":"server_error","message":"gone"}}`,
			"runtime               turn started open\nruntime               turn failed: gone failed\n"},
	} {
		var turn present.Turn
		var list present.List
		for line := range strings.Lines(stream + c.end) {
			ev, err := responses.DecodeEvent([]byte(line))
			expect.NoError(t, err)
			list.Put(turn.Event(ev)...)
		}
		rows := list.Rows(present.Verbose)
		last := 1
		if name == "cut off" { // the beginning of the turn stays
			rows, last = append(rows[1:len(rows)-1], rows[0], rows[len(rows)-1]), 2
		}
		expect.Equal(t, name+": its rows", draw(rows[:len(rows)-last]), `assistant_progress    Thinking: The tests first.
assistant_progress    Assistant progress: I run the **tests**.
tool                  $ make test: command exited with status 2 failed
                        > $ make test, exit 2 [] ["a" "b"]
tool                  weather city: Bern: the client answers it
                        > weather city: Bern [] []
brief                 answer: They fail.
                        | They fail.
`)
		expect.Equal(t, name+": its end", draw(rows[len(rows)-last:]), c.want)
		expect.Equal(t, name+": what goes on", turn.Status(), present.Status{})
	}
}
