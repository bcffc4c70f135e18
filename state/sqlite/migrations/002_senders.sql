-- Who sent a message orders the queue before its priority does: a band is 4 for
-- each rank of ledger.Sender and one for each ledger.Priority.
ALTER TABLE entries ADD COLUMN sender TEXT NOT NULL DEFAULT '';

UPDATE entries SET sender = (
    SELECT CASE
        WHEN data ->> '$.origin.kind' = 'operator' THEN 'operator'
        WHEN data ->> '$.kind' = 'internal_followup' OR data ->> '$.origin.timer_id' LIKE 'wait\_%' ESCAPE '\' THEN 'self'
        WHEN data ->> '$.origin.kind' IN ('timer', 'task') OR data ->> '$.origin.kind' = 'system' AND data ->> '$.source_refs.external_trigger_id' IS NULL THEN 'runtime'
        ELSE 'outside' END
    FROM messages WHERE messages.id = message_id)
WHERE status = 'queued' OR status = 'dequeued';

UPDATE entries SET band = band + CASE sender WHEN 'operator' THEN 0 WHEN 'runtime' THEN 4 WHEN 'outside' THEN 8 ELSE 12 END
WHERE status = 'queued' OR status = 'dequeued';
