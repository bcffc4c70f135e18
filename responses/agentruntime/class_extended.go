package agentruntime

// extendedClasses are the recommended classes, one a line with the ids that it needs, and the texts with the words that
// they may be.
const extendedClasses = `permission.evaluated
permission.requested Ac
permission.resolved Ac
sandbox.applied sandbox_profile.mode?=read_only|workspace_write|danger_full_access|external_sandbox
sandbox.violation axis=filesystem|network|process|secret
hook.started
hook.completed
hook.failed
policy.changed
process.started Pr status=running
process.output Pr stream=stdout|stderr|tty
process.input Pr
process.completed Pr status=completed
process.failed Pr failure_category=spawn|sandbox|permission|timeout|transport|lost status=failed
process.terminated Pr by=user|policy|parent_cancel|shutdown status=cancelled
task.profile.resolved Tu
routing.candidates.resolved Tu
routing.decided Tu candidate_count
routing.fallback.applied Tu
routing.not_possible Tu status=blocked
routing.single_candidate Tu
task.delegated Ta
task.dependency.updated Ta
task.attempt.started Ta Ru status?=running
task.attempt.completed Ta Ru status?=completed
task.attempt.failed Ta Ru status=failed|timed_out|lost|cancelled
cost.estimated
cost.recorded
rate_limit.hit by?=provider|host|local
quota.low
quota.blocked
channel.connected Ch
channel.disconnected Ch
channel.resumed Ch
channel.message Ch
channel.permission_forwarded Ch Ac
channel.permission_returned Ch Ac
job.created Jo
job.started Jo
job.progress Jo
job.item.started Jo JI
job.item.completed Jo JI
job.item.failed Jo JI
job.completed Jo
job.failed Jo
job.cancelled Jo
output.spilled
output.truncated truncation=head|tail|middle|head_tail|tokens
output.redacted
output.expired
history.window.loaded
history.reconstructed
history.rollback.started Th
history.rollback.completed Th
snapshot.repaired
`
