package agentruntime

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"holon/responses"
)

// required are the fields that every event has.
var required = []string{"type", "event_id", "timestamp", "schema_version", "runtime_id", "sequence", "payload"}

func checkEnvelope(f *finding) {
	for _, name := range required {
		if wrong, ok := f.misfits[name]; ok {
			f.report(wrong.got, wrong.want)
			continue
		}
		switch name {
		case "timestamp":
			var t time.Time
			utc := t.UnmarshalText([]byte(f.Timestamp)) == nil && strings.HasSuffix(f.Timestamp, "Z")
			f.must(utc, fmt.Sprintf("timestamp %.40q", f.Timestamp), "RFC 3339 in UTC, which ends in Z")
		case "sequence":
			f.must(f.Sequence > 0, fmt.Sprintf("sequence %d", f.Sequence), "1 or more")
		case "payload":
			got := cmp.Or(fmt.Sprintf("%.40s", f.Payload), "absent")
			f.must(bytes.HasPrefix(bytes.TrimSpace(f.Payload), []byte("{")), "payload "+got, "an object")
		default:
			text := map[string]string{"type": f.Type, "event_id": f.EventID, "schema_version": f.SchemaVersion,
				"runtime_id": f.IDs[Runtime]}[name]
			f.must(text != "", "no "+name, name)
		}
	}
	f.must(f.SchemaVersion == "" || f.SchemaVersion == SchemaVersion,
		fmt.Sprintf("schema_version %.40q", f.SchemaVersion), SchemaVersion)
}

func checkClass(f *finding) {
	missing := f.Missing()
	for kind, name := range idNames {
		kind := ID(kind)
		if kind == Runtime {
			continue // V1 tells of it
		}
		if wrong, ok := f.misfits[name]; ok {
			f.report(wrong.got, wrong.want)
		} else if slices.Contains(missing, kind) {
			f.report("no "+name, cmp.Or(f.Type, "an event")+" with "+name)
		}
	}
	class, normalized := classByName()[f.Type]
	_, word := Statuses[f.Status]
	f.must(!normalized || f.Status == "" || word, fmt.Sprintf("status %.40q", f.Status), "a status of the standard")
	if normalized {
		checkFields(f, class)
	}
}

func checkType(f *finding) {
	f.must(f.Type == "" || IsClass(f.Type) || IsVendor(f.Type), fmt.Sprintf("type %.80q", f.Type),
		"a normalized class or holon.…")
}

func checkRepeat(f *finding) {
	if before, ok := f.digests[f.EventID]; ok && f.EventID != "" {
		f.must(before == f.digest(), "another event with event_id "+f.EventID, "the same content")
	}
}

// digest is a short name for the content of an event.
func (e *Event) digest() uint64 {
	h := fnv.New64a()
	data, _ := e.MarshalJSON() // an event that was decoded encodes
	h.Write(data)
	return h.Sum64()
}

func checkSequence(f *finding) {
	want := f.threadOf(f.Event).sequence + 1
	if f.misfit("sequence") || f.Sequence <= 0 || f.partial && want == 1 { // V1 reports it
		return
	}
	f.must(f.Sequence == want, fmt.Sprintf("sequence %d", f.Sequence), fmt.Sprintf("%d in %s", want, f.thread()))
}

func checkSize(f *finding) {
	f.must(len(f.Payload) <= maxPayload, fmt.Sprintf("a payload of %d bytes", len(f.Payload)),
		fmt.Sprintf("%d bytes, the rest by reference", maxPayload))
}

// checkDistinct holds an id to the one kind of thing that it named first, within an event and before it. A session may
// be its only thread. Clients choose the ids of sessions and turns, one without a look at the others: those two are
// compared within an event.
func checkDistinct(f *finding) {
	kinds := map[string]ID{}
	for kind, id := range f.IDs {
		kind := ID(kind)
		if id == "" || kind == Thread && id == f.IDs[Session] {
			continue
		}
		if other, ok := kinds[id]; ok && other.noun() != kind.noun() {
			f.report(fmt.Sprintf("%s and %s are both %.80s", other, kind, id), "ids of their own")
		} else if before, ok := f.nouns[id]; ok && before != kind.noun() && !chosen(before, kind) {
			f.report(fmt.Sprintf("%s %.80s, which was a %s", kind, id, before), "ids of their own")
		}
		kinds[id] = kind
	}
	messages := f.messageIDs()
	for _, kind := range []ID{Turn, Task, ToolCall} {
		id := f.IDs[kind]
		f.must(id == "" || !slices.Contains(messages, id) && !f.messages.set[id],
			fmt.Sprintf("%s is the message %.80s", kind, id), "an id of its own")
	}
}

// chosen reports whether a client may have chosen the ids of both kinds.
func chosen(a, b ID) bool {
	chooses := []ID{Session, Thread, Turn, QueuedTurn}
	return slices.Contains(chooses, a) && slices.Contains(chooses, b)
}

// messageIDs are the ids of the messages that an event is about.
func (e *Event) messageIDs() (ids []string) {
	var refs struct {
		MessageID any `json:"message_id"`
	}
	if e.Refs != nil {
		_ = json.Unmarshal(e.Refs, &refs) // refs that are not an object name no message
	}
	for _, named := range []any{e.field("message_id"), e.field("entry.message_id"), refs.MessageID} {
		if id, _ := named.(string); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

func checkIntroduced(f *finding) {
	checkCause(f)
	runtime := f.IDs[Runtime]
	f.must(f.runtime == "" || runtime == "" || runtime == f.runtime, fmt.Sprintf("runtime_id %.80q", runtime),
		f.runtime+", the runtime of the log")
	session := f.threadOf(f.Event).session
	f.must(session == "" || session == f.IDs[Session], fmt.Sprintf("session_id %.80q", f.IDs[Session]),
		session+", the session of the thread")
	if f.partial {
		return
	}
	checkThread(f)
	checkTasks(f)
	checkOpeners(f)
}

func checkThread(f *finding) {
	if id := f.IDs[Thread]; id != "" && f.Type != "thread.started" && f.Type != "session.created" {
		f.must(f.threadOf(f.Event).started, "thread_id "+id, "thread.started before it")
	}
}

func checkTasks(f *finding) {
	for _, kind := range []ID{Task, ParentTask, rootTaskID} {
		id := f.IDs[kind]
		if kind == ParentTask && f.Type == "task.created" {
			id = f.parentTask()
		}
		f.must(id == "" || f.introduces(kind) || f.external(id) || f.tasks[id] != nil || f.mayHaveEnded("task "+id),
			fmt.Sprintf("%s %.80s", kind, id), "task.created before it")
	}
}

func checkOpeners(f *finding) {
	for kind, opener := range openers {
		id := f.IDs[kind]
		family, _, _ := strings.Cut(opener, ".")
		if id != "" && f.Type != opener && (strings.HasPrefix(f.Type, family+".") || IsVendor(f.Type)) {
			f.must(f.external(id) || f.introduced.set[id] || f.introduced.full, fmt.Sprintf("%s %.80s", kind, id),
				opener+" before it")
		}
	}
}

// openers are the classes that introduce what later events of their family, and ours, name.
var openers = map[ID]string{Channel: "channel.connected"}

// external reports whether the event declares one of its ids external: another log introduces what it names, and judges
// what becomes of it.
func (e *Event) external(id string) bool { return slices.Contains(e.list("external_ids"), any(id)) }

// introduces reports whether the event is the first that may name its id of that kind. A task may be its own root.
func (e *Event) introduces(kind ID) bool {
	return e.Type == "task.created" && (kind == Task || kind == rootTaskID && e.IDs[rootTaskID] == e.IDs[Task])
}

// checkCause holds a cause to be an earlier event. One in another form than the ids of events is a client's own name
// for what it did, of which no log tells; it is found only when a later event has it as its id.
func checkCause(f *finding) {
	cause := f.Correlation.CausationID
	f.must(cause != "" || !f.follows() || f.misfit("correlation") || f.misfit("correlation.causation_id"),
		"no causation_id", "the event that caused it")
	f.must(!f.unmet.set[f.EventID], f.EventID+" was named as a cause before", "a cause that is earlier")
	f.must(!f.mustHaveCause(f.Event) || f.eventIDs.set[cause], fmt.Sprintf("causation_id %.80q", cause),
		"an earlier event")
}

// follows reports whether another event must have caused this one: it is work of a turn, or about what is open, a task
// or an entry of a queue, or uses what another event opened.
func (e *Event) follows() bool {
	family, ok := FamilyOf(e.Type)
	switch {
	case ok && e.Type != family.Open:
		return true
	case e.Type == "queue.changed":
		_, ok := queueOps[e.text("op")]
		return ok && e.text("op") != "enqueue" && e.text("op") != "restore"
	case strings.HasPrefix(e.Type, "task."):
		return e.Type != "task.created" && !e.external(e.IDs[Task])
	}
	within := func(prefix string) bool { return strings.HasPrefix(e.Type, prefix) }
	return e.IDs[Turn] != "" && slices.ContainsFunc(turnWork, within) ||
		slices.ContainsFunc(users, func(kind ID) bool { return e.IDs[kind] != "" }) && slices.ContainsFunc(uses, within)
}

// users are the kinds of what an event opens and another one uses, and uses are classes, by prefix, that do so.
var (
	users = []ID{Turn, Task, ToolCall, ModelRequest}
	uses  = []string{"process.", "cost.", "rate_limit.", "output.", "routing."}
)

// mustHaveCause reports whether the cause of an event must be among the events before it: it has the form of their ids,
// all of them are remembered, and no other log may have it. An entry of a queue has the cause that its sender names,
// which may be an event of another agent, unless the agent itself is the sender.
func (s *state) mustHaveCause(e *Event) bool {
	fromOutside := e.Type == "queue.changed" && e.text("op") == "enqueue" && e.text("sender") != "self"
	cause := e.Correlation.CausationID
	return cause != "" && cause == e.EventID ||
		strings.HasPrefix(cause, responses.PrefixEvent) && !s.partial && !s.eventIDs.full && !fromOutside
}
