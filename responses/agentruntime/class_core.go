package agentruntime

// coreClasses are the classes that every runtime has, one a line with the ids that it needs, and the texts with the
// words that they may be.
const coreClasses = `session.created
session.updated
thread.started Th
thread.updated Th status?=idle|queued|running|blocked|failed|cancelled|completed|stale|unknown
turn.submitted Th Tu status=accepted|queued
turn.started Th Tu status=running
turn.completed Th Tu status=completed
turn.failed Th Tu
task.created Ta
task.accepted Ta
task.queued Ta
task.started Ta Ru
task.updated Ta
task.progress Ta
task.waiting Ta
task.blocked Ta
task.paused Ta
task.resumed Ta
task.retrying Ta
task.cancel_requested Ta
task.cancelled Ta
task.timed_out Ta Ru
task.failed Ta Ru
task.lost Ta Ru
task.completed Ta Ru
task.archived Ta
run.status
model.requested Th Tu MR
model.delta Th Tu MR St
model.completed Th Tu MR
model.failed Th Tu MR outcome=retrying|retries_exhausted|fail_fast_aborted
reasoning.delta Th Tu MR St
reasoning.summary Th Tu St
tool.catalog.resolved Th
tool.started Th Tu St TC
tool.args Th Tu St TC
tool.progress Th Tu St TC
tool.result Th Tu St TC
tool.failed Th Tu St TC
action.required Th Ac action_type=tool_permission|operator_input|client_tool_output|credential|plan_review
action.resolved Th Ac decision=allow|deny|answered|edited|cancelled|expired
action.resolved via=respond_action|operator_input|policy|expiry|cancellation
queue.changed Th Qu
context.resolved Th
context.compaction.started Th
context.compaction.completed Th
context.compaction.failed Th
artifact.changed Ar
evidence.changed Ev
subagent.spawned Sa Th Tu
subagent.status Sa
subagent.input Sa
subagent.completed Sa
subagent.failed Sa
subagent.closed Sa
limit.changed
snapshot.updated
runtime.warning
runtime.error
`
