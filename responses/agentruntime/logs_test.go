package agentruntime

import (
	"fmt"
	"strings"
)

const (
	tool     = "begin\ntool.started {\"safe_args\":{},\"policy\":\"allow\"}\n"
	request  = "begin\nrouting.decided\nmodel.requested {\"attempt\":1}\n"
	retrying = request +
		`model.failed {"outcome":"retrying","failure_category":"timeout","message":"m","retryable":true}` + "\n"
	aTask = "task.created\ntask.accepted\n"
)

// logs holds a valid and an invalid log of each rule that has a check.
var logs = map[string]struct{ valid, invalid string }{
	"V1": {"thread.started", "thread.started timestamp=now"},
	"V2": {"thread.started", "thread.started thread_id="},
	"V3": {"begin\nholon.brief.created", "begin\nturn.canceled"},
	"V4": {"session.created event_id=a sequence=1\nsession.created event_id=a sequence=1",
		"session.created event_id=a\nsession.updated event_id=a"},
	"V5":  {"begin", "session.created\nsession.updated sequence=3"},
	"V6":  {`session.created {"title":"x"}`, `session.created {"title":"` + strings.Repeat("x", maxPayload) + `"}`},
	"V8":  {"begin\ntool.started", "begin\ntool.started step_id=tool_call_id-1"},
	"V9":  {aTask, "task.accepted"},
	"V11": {tool + `tool.failed {"failure_category":"timeout","message":"m","retryable":true}`, "begin\ntool.progress"},
	"V12": {tool + "tool.started tool_call_id=other", tool + "tool.started"},
	"V13": {"begin\naction.required\naction.resolved", "begin\naction.resolved"},
	"V14": {"begin\nprocess.started\nprocess.output\nprocess.completed",
		"begin\nprocess.started\nprocess.completed\nprocess.failed"},
	"V15": {request + "model.delta\nmodel.completed", request + "model.completed\nmodel.completed"},
	"V16": {"task.created\nbegin\ntask.attempt.started turn_id=turn_id-1\naction.required turn_id=turn_id-1\nturn.completed {\"open_action_ids\":[\"action_id-1\"]}",
		"begin\naction.required turn_id=turn_id-1\nturn.completed"},
	"V17": {"begin\nturn.completed", "begin\nturn.completed\ntool.catalog.resolved turn_id=turn_id-1"},
	"V18": {"begin\nturn.completed", "begin\nturn.completed\nturn.completed"},
	"V19": {"begin", "thread.started\nturn.started"},
	"V21": {"begin\ncontext.compaction.started\ncontext.compaction.failed", "begin\ncontext.compaction.completed"},
	"V26": {request + "model.failed {\"outcome\":\"retrying\"}\nmodel.requested model_request_id=b {\"attempt\":2}",
		"begin\nmodel.requested {\"attempt\":2}"},
	"V27": {retrying + `turn.failed status=failed {"failure_category":"storage","retryable":false}`,
		"begin\nturn.failed status=failed"},
	"V31": {tool + "tool.result status=completed {\"preview\":\"\"}",
		"begin\ntool.started\ntool.result status=completed"},
	"V32": {tool + "tool.result status=completed {\"preview\":\"\"}",
		tool + "tool.result status=completed {\"success\":false}"},
	"V33": {tool + `tool.failed {"failure_category":"permission_denied","message":"m","retryable":false}`,
		tool + "permission.evaluated tool_call_id=tool_call_id-1 {\"decision\":\"deny\",\"decision_source\":\"rule\"}\ntool.result"},
	"V36": {`begin
		output.truncated {"kept_bytes":1,"size_bytes":2,"truncation":"head"}`, "begin\noutput.spilled"},
	"V39": {tool + `permission.evaluated tool_call_id=tool_call_id-1 {"decision":"allow","decision_source":"rule"}
		sandbox.applied tool_call_id=tool_call_id-1 ` + axes("enforced") + `
		process.started tool_call_id=tool_call_id-1`, tool + "process.started tool_call_id=tool_call_id-1"},
	"V40": {`begin
		permission.evaluated {"decision":"allow","decision_source":"rule"}`, "begin\npermission.evaluated"},
	"V47": {`begin
		action.required {"expires_at":"2026-11-24T00:00:00Z"}
		action.resolved {"decision":"expired"}`, "begin\naction.required\naction.resolved {\"decision\":\"expired\"}"},
	"V48": {"begin\nsandbox.applied " + axes("unknown"), "begin\nsandbox.applied " + axes("yes")},
	"V49": {tool + "sandbox.violation tool_call_id=tool_call_id-1\n" +
		`tool.failed {"failure_category":"sandbox_violation","message":"m","retryable":false}`,
		tool + "sandbox.violation tool_call_id=tool_call_id-1\ntool.result"},
	"V51": {`begin
		queue.changed {"op":"enqueue","entry":{"queued_turn_id":"q"},"depth":1}
		queue.changed {"op":"dequeue","entry":{"queued_turn_id":"q"},"depth":0}`, `begin
		queue.changed {"op":"dequeue","entry":{"queued_turn_id":"q"}}`},
	"V53": {"begin\nturn.completed\nturn.submitted turn_id=b\nturn.started turn_id=b",
		"begin\nturn.submitted turn_id=b\nturn.started turn_id=b"},
	"V62": {aTask + "task.started", aTask + "task.archived"},
	"V63": {aTask + "task.attempt.started\ntask.attempt.failed\ntask.attempt.started run_id=b",
		aTask + "task.attempt.started\ntask.attempt.failed\ntask.attempt.started"},
	"V66": {`task.created {"acceptance":[{"id":"a"},"it builds"]}
		task.accepted
		task.started
		task.completed {"delivery_state":"delivered","acceptance":[{"id":"a","status":"met"},{"status":"failed"}]}`,
		aTask + "task.started\ntask.completed"},
	"V67": {aTask + "task.started\ntask.lost {\"evidence\":[]}", aTask + "task.started\ntask.lost"},
	"V70": {
		aTask + "task.started\ntask.waiting status=waiting_input {\"wait_for\":{\"kind\":\"operator\",\"ref\":\"a\"}}",
		aTask + "task.started\ntask.waiting status=waiting_input",
	},
	"V71": {request, "thread.started\nturn.submitted\nturn.started\nmodel.requested {\"attempt\":1}"},
	"V72": {
		"begin\ncontext.compaction.started\n" + `context.compaction.completed {"preserved":{"actions":[],"incidents":[],"evidence":[]}}`,
		"begin\ncontext.compaction.started\ncontext.compaction.completed",
	},
	"V75": {request + "model.completed\nturn.completed",
		"begin\nmodel.requested {\"attempt\":1}\nmodel.completed\nturn.completed"},
	"V77": {fallback(`routing.fallback.applied {"from":"p/a","to":"p/b","reason":"c"}`, "p/b"),
		"begin\nrouting.fallback.applied"},
	"V78": {request + `model.completed
		cost.recorded turn_id=turn_id-1 {"usage":{"input_tokens":3,"output_tokens":2}}
		turn.completed {"usage":{"input_tokens":3,"output_tokens":2}}`,
		request + "model.completed\nturn.completed {\"usage\":{\"input_tokens\":3}}"},
	"V79": {request + "model.failed {\"http_status\":429}\nrate_limit.hit turn_id=turn_id-1 model_request_id=model_request_id-1\nturn.completed",
		request + "model.failed {\"http_status\":429}\nturn.completed"},
}

// axes are what holds a sandbox, with a level of its network.
func axes(level string) string {
	return fmt.Sprintf(`{"enforcement":{"filesystem":"unknown","network":%q,"process":"unknown","secret":"unknown"}}`, level)
}

// fallback is a request that advanced to a fallback, its event, and the next request.
func fallback(event, next string) string {
	return `begin
		routing.decided
		model.requested {"attempt":1,"provider_name":"p","model_name":"a"}
		model.failed {"outcome":"retries_exhausted","advanced_to_fallback":true}
		` + event + `
		model.requested model_request_id=b {"attempt":1,"provider_selector":"` + next + `"}`
}

// alsoBroken are further ways to break rules.
var alsoBroken = []struct{ rule, log string }{
	{"V1", "thread.started schema_version=other-9"},
	{"V2", request + `model.failed {"message":null}`},
	{"V2", request + `model.failed {"failure_category":null}`},
	{"V2", `begin
		turn.failed status=cancelled {"failure_category":"cancelled","retryable":false,"message":null}`},
	{"V2", `task.created {"objective":null}`},
	{"V2", `task.created {"task_kind":null}`},
	{"V2", `begin
		sandbox.applied {"sandbox_profile":{"mode":"loose"},"enforcement":{"filesystem":"unknown","network":"unknown",` +
		`"process":"unknown","secret":"unknown"}}`},
	{"V8", "begin\ntool.started {\"message_id\":\"tool_call_id-1\"}"},
	{
		"V8",
		"thread.started\nturn.submitted\nqueue.changed turn_id=turn_id-1 {\"op\":\"settle\",\"entry\":{\"message_id\":\"turn_id-1\"}}",
	},
	{"V8", "begin\ntool.started tool_call_id=same {\"safe_args\":{}}\ntask.created task_id=same"},
	{"V8", "thread.started\nqueue.changed {\"op\":\"enqueue\",\"entry\":{\"message_id\":\"m\"}}\nturn.submitted turn_id=m"},
	{"V8", "thread.started\nturn.submitted refs={\"message_id\":\"turn_id-1\"}"},
	{"V8", "thread.started\nqueue.changed refs={\"message_id\":\"m\"} {\"op\":\"restore\"}\nturn.submitted turn_id=m"},
	{"V9", "task.created parent_task_id=none"},
	{"V9", aTask + "task.started root_task_id=none"},
	{"V9", "task.lost {\"evidence\":\"e\",\"external_ids\":[\"other\"]}"},
	{"V9", "begin\ncontext.resolved session_id=other turn_id=turn_id-1"},
	{"V11", tool + "tool.result status=completed {\"preview\":\"\"}\ntool.started"},
	{"V13", "begin\naction.required\naction.required"},
	{"V14", "begin\nprocess.started\nprocess.started"},
	{"V15", request + "model.completed\nmodel.requested {\"attempt\":1}"},
	{"V19", "begin\nturn.submitted"},
	{"V19", "begin\nturn.completed\nturn.submitted"},
	{"V26", request + "model.failed {\"outcome\":\"retrying\"}\nmodel.requested model_request_id=b {\"attempt\":1}"},
	{"V26", request + "model.failed {\"outcome\":\"retrying\"}\nmodel.requested model_request_id=b {\"attempt\":3}"},
	{"V26", request + "model.completed\nmodel.requested model_request_id=b {\"attempt\":2}"},
	{"V16", tool + "process.started tool_call_id=tool_call_id-1\ntool.failed\nturn.completed"},
	{"V27", "begin\n" + `turn.failed status=failed {"failure_category":"","retryable":false}`},
	{"V27", retrying + `turn.failed status=failed {"failure_category":"timeout","retryable":true}`},
	{"V27", "begin\n" + `turn.failed status=failed {"failure_category":"timeout","retryable":"perhaps"}`},
	{"V32", tool + `tool.failed {"failure_category":"timeout","message":"m","retryable":0}`},
	{"V33", `begin
		tool.started {"safe_args":{},"policy":"deny"}
		tool.result status=completed {"preview":""}`},
	{"V36", "begin\n" + `output.truncated {"kept_bytes":3,"size_bytes":2,"truncation":"head"}`},
	{"V36", "begin\n" + `output.spilled {"size_bytes":"many","preview":"","output_ref":"r"}`},
	{"V40", "begin\n" + `permission.evaluated {"decision":"allow","decision_source":"a feeling"}`},
	{"V47", `begin
		action.required
		action.resolved {"decision":"deny","via":"expiry"}`},
	{"V77", fallback(`routing.fallback.applied {"from":"p/a","to":"","reason":"c"}`, "p/b")},
	{"V77", fallback("", "p/b")},
	{"V77", fallback(`routing.fallback.applied {"from":"p/a","to":"p/c","reason":"c"}`, "p/b")},
	{"V77", fallback(`routing.fallback.applied {"from":"p/c","to":"p/b","reason":"c"}`, "p/b")},
	{"V77", fallback(`routing.fallback.applied {"from":"p/a","to":"p/a","reason":"c"}`, "p/a")},
	{"V77", fallback(strings.Repeat("routing.fallback.applied {\"from\":\"p/a\",\"to\":\"p/b\",\"reason\":\"c\"}\n", 2), "p/b")},
	{"V77", "begin\n" + `routing.fallback.applied {"from":"p/a","to":"p/b","reason":"c"}`},
	{"V77", request + `model.failed {"outcome":"fail_fast_aborted","advanced_to_fallback":false}
		routing.fallback.applied {"from":"p/a","to":"p/b","reason":"c"}`},
	{"V32", tool + `tool.result status=completed {"preview":"","canonical":{"status":"error"}}`},
	{"V48", `sandbox.applied {"enforcement":{"filesystem":"enforced","process":"enforced","secret":"enforced"}}`},
	{"V49", tool + `tool.failed {"failure_category":"sandbox_violation","message":"m","retryable":false}`},
	{"V51", queued("explode")},
	{"V51", queued("promote")},
	{"V51", `queue.changed {"op":"enqueue","entry":{"message_id":"m"},"depth":1.5}`},
	{"V9", "task.created {\"parent_task_id\":\"none\"}"},
	{"V2", aTask + "task.started status=completed"},
	{"V2", aTask + "task.started\ntask.completed status= {\"delivery_state\":\"delivered\"}"},
	{"V2", aTask + "task.started\ntask.failed status="},
	{"V2", tool + `tool.failed status=completed {"failure_category":"timeout","message":"m","retryable":true}`},
	{"V2", tool + "tool.result status=failed {\"preview\":\"\"}"},
	{"V2", "begin\ntool.started status=completed"},
	{"V2", request + "model.failed status=completed"},
	{"V2", request + "model.completed status=failed"},
	{"V2", "begin\nprocess.started\nprocess.failed status=completed"},
	{"V2", "begin\nprocess.started\nprocess.completed status=failed"},
	{"V2", "begin\nprocess.started\nprocess.terminated status=completed"},
	{"V2", "begin\nturn.failed status=completed {\"failure_category\":\"timeout\",\"retryable\":false}"},
	{"V2", "thread.started\nthread.updated status="},
	{"V2", aTask + "task.started\ntask.waiting status=completed {\"wait_for\":{\"kind\":\"k\",\"ref\":\"r\"}}"},
	{"V2", aTask + "task.started\ntask.waiting status="},
	{"V62", aTask + "task.started\ntask.updated status=completed"},
	{"V63", aTask + "task.started\ntask.failed\ntask.retrying\ntask.started"},
	{"V66", `task.created {"acceptance":[{"id":"a"},{"id":"b"}]}
		task.accepted
		task.started
		task.completed {"delivery_state":"delivered","acceptance":[{"id":"a","status":"met"}]}`},
	{"V66", aTask + `task.updated {"acceptance":["it builds"]}
		task.started
		task.completed {"delivery_state":"delivered"}`},
	{"V66", aTask + `task.started
		task.completed {"delivery_state":"delivered","acceptance":[{"id":"a","status":"pending"}]}`},
	{"V66", aTask + "task.started\ntask.completed {\"delivery_state\":\"unknown\"}"},
	{"V75", "begin\n" + `routing.candidates.resolved turn_id=turn_id-1 {"candidate_count":2,"candidates":[{}]}`},
	{"V75", "begin\n" + `routing.not_possible {"candidate_count":1}`},
	{"V75", "begin\n" + `routing.decided {"candidate_count":0}`},
	{"V75", "begin\n" + `routing.decided {"candidate_count":3,"fallback_chain":["b"]}`},
	{"V75", "begin\n" + `routing.decided {"candidate_count":2,"fallback_chain":[]}`},
	{"V75", "begin\n" + `routing.decided {"candidate_count":2,"fallback_chain":["a","b"]}`},
	{"V78", request + "model.failed\nturn.completed {\"usage\":{\"input_tokens\":3}}"},
	{"V78", request + "model.failed\nturn.failed status=failed {\"usage\":{\"input_tokens\":3}}"},
	{"V78", request + `model.completed {"usage":{"input_tokens":3,"output_tokens":2}}
		cost.recorded turn_id=turn_id-1 model_request_id=model_request_id-1 {"usage":{"input_tokens":2,"output_tokens":2}}`},
	{"V78", request + `cost.recorded turn_id=turn_id-1 model_request_id=model_request_id-1 {"usage":{"output_tokens":1}}
		model.completed {"usage":{"output_tokens":2}}`},
	{"V78", request + "model.failed\nturn.completed {\"usage\":{\"input_tokens\":0,\"output_tokens\":0,\"total_tokens\":1}}"},
	{"V78", request + strings.Repeat(`cost.recorded turn_id=turn_id-1 model_request_id=model_request_id-1 {"usage":{}}
		`, 2) + "model.completed"},
	{"V78", request + `model.failed
		cost.recorded turn_id=turn_id-1 {"usage":{"input_tokens":3}}
		turn.failed status=cancelled {"failure_category":"cancelled","retryable":false}`},
	{"V78", `cost.recorded {"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":4}}`},
	{"V75", "begin\n" + `routing.single_candidate {"candidate_count":2}`},
	{"V75", "begin\n" + `routing.decided {"candidate_count":1,"fallback_chain":["a","b"]}`},
	{"V1", "session.created timestamp=2026-11-23T07:00:00.000+00:00"},
	{"V2", "thread.started\nturn.submitted status="},
	{"V2", "begin\nturn.completed status=lost"},
	{"V2", "evidence.changed status=done"},
	{"V2", `output.truncated {"kept_bytes":1,"size_bytes":2,"truncation":"zz"}`},
	{"V2", tool + `sandbox.violation tool_call_id=tool_call_id-1 {"axis":"zz"}`},
	{"V2", "begin\n" + `tool.started {"host":"zz"}`},
	{"V2", "begin\n" + `tool.started {"host":5}`},
	{"V2", `rate_limit.hit {"by":"zz"}`},
	{"V2", `thread.started {"kind":"zz"}`},
	{"V2", "begin\n" + `routing.decided {"candidate_count":"two"}`},
	{"V2", "begin\n" + `routing.decided {"candidate_count":null}`},
	{"V2", request + `model.failed {"retryable":"yes"}`},
	{"V2", request + `model.failed {"retryable":null}`},
	{"V2", `task.created {"task_kind":5}`},
	{"V2", "begin\nturn.completed {\"open_action_ids\":{}}"},
	{"V2", "begin\nturn.completed {\"usage\":7}"},
	{"V2", `begin
		action.required
		action.resolved {"via":"prose"}`},
	{"V9", "begin\ncontext.resolved turn_id=turn_id-1 runtime_id=other"},
	{"V9", "begin\ntool.started correlation="},
	{"V9", "begin\nprocess.started\nprocess.completed correlation="},
	{"V9", tool + "process.started tool_call_id=tool_call_id-1 correlation="},
	{"V9", aTask + "process.started task_id=task_id-1 correlation="},
	{"V9", tool + `output.truncated tool_call_id=tool_call_id-1 correlation= {"kept_bytes":1,"size_bytes":2,"truncation":"head"}`},
	{"V9", request + "cost.recorded model_request_id=model_request_id-1 correlation= {\"usage\":{}}"},
	{"V9", request + "rate_limit.hit turn_id=turn_id-1 correlation="},
	{"V9", fallback(`routing.fallback.applied correlation= {"from":"p/a","to":"p/b","reason":"c"}`, "p/b")},
	{"V9", queued("enqueue") + `queue.changed correlation= {"op":"dequeue","entry":{"message_id":"m"}}`},
	{"V9", queued("enqueue") + `queue.changed correlation= {"op":"interject","entry":{"message_id":"m"}}`},
	{"V9", aTask + "task.started correlation="},
	{"V9", aTask + "task.started\ntask.failed correlation="},
	{"V9", queued("enqueue") + queued("dequeue") + `queue.changed correlation= {"op":"settle","entry":{"message_id":"m"}}`},
	{"V9", "channel.connected channel_id=other\nchannel.message"},
	{"V9", "holon.trigger.rotated channel_id=other"},
	{"V16", "begin\n" + `turn.completed {"open_action_ids":["none"]}`},
	{"V16", `begin
		action.required
		action.resolved
		turn.completed {"open_action_ids":["action_id-1"]}`},
	{"V18", "begin\nturn.started"},
	{"V18", "begin\n" + `turn.started {"attempt":1}`},
	{"V19", "thread.started\nturn.submitted\nmodel.requested {\"attempt\":1}\nturn.started"},
	{"V19", "thread.started\nturn.submitted\nturn.completed"},
	{"V26", "begin\nmodel.requested {\"attempt\":1,\"round\":2}"},
	{"V26", `begin
		model.requested {"attempt":1,"round":1}
		model.completed
		model.requested model_request_id=b {"attempt":1,"round":3}`},
	{"V32", tool + `tool.result status=completed {"preview":"","status":"error"}`},
	{"V32", tool + `tool.result status=completed {"preview":"","canonical":{"status":"failed"}}`},
	{"V32", tool + "tool.failed {\"failure_category\":\"timeout\",\"message\":\"m\",\"retryable\":true," +
		"\"canonical\":{\"status\":\"success\"}}"},
	{"V51", queued("settle")},
	{"V51", `queue.changed {"op":"enqueue"}`},
	{"V51", `queue.changed status=failed {"op":"enqueue","entry":{"message_id":"m"}}`},
	{"V2", "session.created status=failed"},
	{"V51", queued("enqueue") + queued("dequeue") + `queue.changed {"op":"settle"}`},
	{"V51", queued("enqueue") + queued("settle")},
	{"V51", queued("enqueue") + queued("dequeue") + queued("settle") + queued("settle")},
	{"V51", strings.Replace(queued("enqueue")+queued("dequeue"), `"m"`, `"m","priority":"next"`, 1) +
		`queue.changed {"op":"settle","entry":{"message_id":"m","priority":"normal"}}`},
	{"V62", "task.created\ntask.created"},
	{"V62", aTask + "task.created"},
	{"V62", aTask + "task.accepted"},
	{"V62", aTask + "task.started\ntask.started"},
	{"V62", aTask + "task.started\ntask.failed\ntask.failed"},
	{"V62", aTask + "task.started\ntask.failed\ntask.archived\ntask.completed"},
	{"V75", "begin\n" + `routing.candidates.resolved turn_id=turn_id-1 {"candidate_count":2}
		routing.single_candidate {"candidate_count":1}`},
	{"V75", "begin\n" + `routing.decided {"candidate_count":2,"candidates":["a"]}`},
	{"V78", `cost.recorded {"amount":0,"price_source":"unknown"}`},
	{"V78", `cost.recorded {"amount":0}`},
	{"V78", `cost.recorded {"amount":"none","price_source":"list"}`},
	{"V79", request + "model.failed {\"http_status\":429}\nmodel.requested model_request_id=b {\"attempt\":2}\n" +
		"rate_limit.hit turn_id=turn_id-1 model_request_id=b\nmodel.completed model_request_id=b\nturn.completed"},
	{"V79", request + "rate_limit.hit turn_id=turn_id-1 model_request_id=other"},
}

// alsoLegal are logs that come near to breaking a rule.
var alsoLegal = []string{
	"thread.started\n" + queued("enqueue") + queued("dequeue") + queued("enqueue") + queued("interject") + queued("settle"),
	`thread.started
		queue.changed {"op":"enqueue","entry":{"message_id":"m","priority":"normal"}}
		queue.changed {"op":"promote","entry":{"message_id":"m","priority":"next"},"depth":1}
		queue.changed {"op":"dequeue","entry":{"message_id":"m","priority":"next"},"depth":0}
		queue.changed {"op":"settle","entry":{"message_id":"m"},"depth":0}`,
	"begin\nturn.started {\"attempt\":2}",
	`begin
		routing.decided {"candidate_count":3,"fallback_chain":["a","b"]}`,
	`begin
		routing.candidates.resolved turn_id=turn_id-1 {"candidate_count":3}
		routing.decided {"candidate_count":3,"fallback_chain":["a"]}`,
	tool + `tool.result {"preview":"","exit_code":null,"host":"client"}`,
	"thread.started\nturn.submitted\nturn.failed status=cancelled {\"failure_category\":\"cancelled\",\"retryable\":false}",
	`begin
		routing.decided
		model.requested {"attempt":1,"round":1}
		model.completed
		model.requested model_request_id=c {"attempt":1,"purpose":"compaction","round":9}
		model.completed model_request_id=c
		model.requested model_request_id=b {"attempt":1,"round":2}`,
	`begin
		turn.completed {"open_action_ids":["a"],"external_ids":["a"]}`,
	"thread.started\nchannel.connected\nchannel.disconnected\nholon.trigger.rotated channel_id=channel_id-1",
	`session.created
		cost.estimated correlation= {"amount":"unknown"}
		output.expired correlation= {"output_ref":"turns/a","turn_id":"a"}`,
	"session.created timestamp=2026-11-23T07:00:00Z",
	`cost.recorded {"amount":0,"price_source":"list"}`,
	`cost.recorded {"amount":"unknown","price_source":"unknown"}`,
	"begin\nrate_limit.hit turn_id=turn_id-1 {\"by\":\"host\"}",
	aTask + `task.started
		task.waiting status=waiting_input {"wait_for":{"kind":"operator","ref":"a"}}
		task.waiting status=waiting_input {"wait_for":{"kind":"operator","ref":"b"}}`,
}
