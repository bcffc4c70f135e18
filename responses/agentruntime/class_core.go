package agentruntime

// coreClasses are the classes that every runtime has, one a line with the ids that it needs, and the texts with the
// words that they may be.
const coreClasses = `session.created status?=idle
session.updated
thread.started Th status=idle kind?=main|child|fork
thread.updated Th status=idle|queued|running|blocked|failed|cancelled|completed|stale|unknown
turn.submitted Th Tu status=accepted|queued
turn.started Th Tu status=running
turn.completed Th Tu status=completed
turn.failed Th Tu status=failed|cancelled|timed_out|lost message
task.created Ta status=draft objective task_kind
task.accepted Ta status=accepted
task.queued Ta status=queued
task.started Ta Ru status=running
task.updated Ta
task.progress Ta
task.waiting Ta status=waiting_input|waiting_permission|waiting_resource
task.blocked Ta status=blocked
task.paused Ta status=paused
task.resumed Ta
task.retrying Ta status=retrying
task.cancel_requested Ta status=cancelling
task.cancelled Ta status=cancelled
task.timed_out Ta Ru status=timed_out
task.failed Ta Ru status=failed
task.lost Ta Ru status=lost
task.completed Ta Ru status=completed
task.archived Ta status=archived
run.status
model.requested Th Tu MR status=running
model.delta Th Tu MR St channel?=text|refusal|annotation|structured
model.completed Th Tu MR status=completed
model.failed Th Tu MR status=failed outcome=retrying|retries_exhausted|fail_fast_aborted
model.failed failure_category message retryable
reasoning.delta Th Tu MR St
reasoning.summary Th Tu St
tool.catalog.resolved Th
tool.started Th Tu St TC status=running host?=server|client
tool.args Th Tu St TC
tool.progress Th Tu St TC phase?=awaiting_permission|executing|streaming
tool.result Th Tu St TC status=completed
tool.failed Th Tu St TC status=failed
action.required Th Ac action_type=tool_permission|operator_input|client_tool_output|credential|plan_review status?=waiting_input
action.resolved Th Ac decision=allow|deny|answered|edited|cancelled|expired status?=completed|cancelled
action.resolved via=respond_action|operator_input|policy|expiry|cancellation
queue.changed Th Qu
context.resolved Th
context.compaction.started Th status=running trigger?=manual|auto|memory|budget|remote|system
context.compaction.completed Th status=completed
context.compaction.failed Th status=failed
artifact.changed Ar op?=created|updated|removed|exported
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
