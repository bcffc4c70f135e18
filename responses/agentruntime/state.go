package agentruntime

import (
	"cmp"
	"slices"
)

// maxRecent bounds how many closed ids, and how many event ids, are remembered.
const maxRecent = 1 << 14

// state is the fold over the events so far: what the rules need to judge the next one.
type state struct {
	runtime    string // of the first event
	threads    map[string]*thread
	open       map[string]*object // by [Family.key]
	tasks      map[string]*task
	queues     map[string]*queue
	closed     recent            // keys of what ended, and in a part of a log of entries that left their queue
	introduced recent            // ids of channels
	nouns      map[string]ID     // what recent ids name, by id
	ids        recent            // those ids
	messages   recent            // ids of messages
	unmet      recent            // ids of causes that no event had when they were named
	digests    map[string]uint64 // of recent events, by event id
	eventIDs   recent
	partial    bool // what came before the log is not known
}

// thread is one stream of events.
type thread struct {
	sequence int64
	session  string // of its first event
	started  bool
	named    bool   // an id was given to the first thread of the session
	running  string // the turn that runs
}

// object is one open thing of a [Family].
type object struct {
	family  Family
	id      string
	turn    *object
	parts   map[*object]bool // what the turn has open
	seen    map[string]int   // counts of what happened to it, by class or by name
	text    map[string]string
	spent   tokens
	used    map[string]tokens // by model request
	attempt float64           // number of a turn's last model request
	round   float64           // of the turn's last request
	limited []string          // requests that a provider answered with 429
}

// task is a task that is not archived.
type task struct {
	status     string
	runs       []string // the last ones
	tried      []string // the last ones of attempts that are retried
	acceptance []string // ids of the items to decide
}

// queue has the entries that wait, and those that a turn claimed and that are not settled, with their priorities.
type queue struct{ waiting, claimed map[string]string }

// place says where an entry is.
func (q *queue) place(entry string) string {
	if _, ok := q.waiting[entry]; ok {
		return "waiting"
	}
	if _, ok := q.claimed[entry]; ok {
		return "claimed"
	}
	return "out"
}

func newState() *state {
	return &state{threads: map[string]*thread{}, open: map[string]*object{}, tasks: map[string]*task{},
		queues: map[string]*queue{}, digests: map[string]uint64{}, nouns: map[string]ID{}}
}

// recent is a set of the last strings that were added to it.
type recent struct {
	ring []string
	set  map[string]bool
	next int
	full bool // something was forgotten
}

// add remembers s and returns what it forgets for it.
func (r *recent) add(s string) (forgotten string) {
	if r.set == nil {
		r.set = map[string]bool{}
	}
	if r.set[s] {
		return ""
	}
	if len(r.ring) < maxRecent {
		r.ring = append(r.ring, s)
	} else {
		forgotten, r.full = r.ring[r.next], true
		delete(r.set, forgotten)
		r.ring[r.next] = s
		r.next = (r.next + 1) % maxRecent
	}
	r.set[s] = true
	return forgotten
}

// turnOf is the open turn of an event.
func (s *state) turnOf(e *Event) *object { return s.open["turn "+e.IDs[Turn]] }

// ownerOf is the open turn in which something of a family begins and ends: the one that it names, or that of its tool
// call. Attempts at tasks go on after the turn that began them.
func (s *state) ownerOf(f Family, e *Event) *object {
	if f.ID == Run {
		return nil
	}
	if tool := s.toolOf(e); tool != nil && e.IDs[Turn] == "" && f.Name == "process" {
		return tool.turn
	}
	return s.turnOf(e)
}

// objectOf is the open thing that an event of a family is about.
func (s *state) objectOf(e *Event) *object {
	f, ok := FamilyOf(e.Type)
	if !ok {
		return nil
	}
	return s.open[f.key(e)]
}

// toolOf is the open tool call of an event.
func (s *state) toolOf(e *Event) *object { return s.open["tool call "+e.IDs[ToolCall]] }

// threadOf is the stream of an event, which begins with its first event. What names no thread belongs to the first
// thread of its session.
func (s *state) threadOf(e *Event) *thread {
	session, id := "session "+e.IDs[Session], e.IDs[Thread]
	main := s.threads[session]
	if main == nil {
		main = &thread{}
		s.threads[session] = main
	}
	if id == "" {
		return main
	}
	t := s.threads[id]
	if t == nil {
		t = &thread{}
		if !main.named {
			main.named = true
			t = main
		}
		s.threads[id] = t
	}
	return t
}

// apply takes an event into the state, whether it was legal or not.
func (s *state) apply(e *Event) {
	t := s.threadOf(e)
	t.sequence, t.session = max(e.Sequence, t.sequence), cmp.Or(t.session, e.IDs[Session])
	if e.misfit("sequence") || e.Sequence <= 0 {
		t.sequence++ // as if it were right: the next event is judged by its own number
	}
	if cause := e.Correlation.CausationID; cause != "" && !s.eventIDs.set[cause] && !s.mustHaveCause(e) {
		s.unmet.add(cause)
	}
	s.runtime = cmp.Or(s.runtime, e.IDs[Runtime])
	s.applyNames(e)
	s.applyThread(t, e)
	if f, ok := FamilyOf(e.Type); ok {
		s.applyFamily(f, e)
	}
	noted := map[*object]bool{nil: true}
	for _, o := range []*object{s.turnOf(e), s.toolOf(e), s.objectOf(e)} {
		if !noted[o] {
			noted[o] = true
			o.note(e)
		}
	}
	if e.IDs[Task] != "" && !e.external(e.IDs[Task]) {
		s.applyTask(e)
		s.release(e)
	}
	if e.Type == "queue.changed" {
		s.applyQueue(e)
	}
}

// release takes the process of a task from the turn that started it: it is the task's from then on.
func (s *state) release(e *Event) {
	if o := s.open["process "+e.IDs[Process]]; o != nil && o.turn != nil {
		delete(o.turn.parts, o)
		o.turn = nil
	}
}

// applyNames remembers what each id names. A thread whose id is that of its session leaves it to the session.
func (s *state) applyNames(e *Event) {
	for kind, id := range e.IDs {
		if id == "" || s.ids.set[id] {
			continue
		}
		delete(s.nouns, s.ids.add(id))
		s.nouns[id] = ID(kind).noun()
	}
	for kind, opener := range openers {
		if e.Type == opener {
			s.introduced.add(e.IDs[kind])
		}
	}
	for _, message := range e.messageIDs() {
		s.messages.add(message)
	}
}

func (s *state) applyThread(t *thread, e *Event) {
	switch e.Type {
	case "thread.started":
		t.started = true
	case "turn.started":
		t.running = e.IDs[Turn]
	case "turn.completed", "turn.failed":
		if t.running == e.IDs[Turn] {
			t.running = ""
		}
	}
}

func (s *state) applyFamily(f Family, e *Event) {
	key := f.key(e)
	o := s.open[key]
	switch {
	case e.Type == f.Open && o == nil:
		o = &object{family: f, id: e.IDs[f.ID], seen: map[string]int{}, text: map[string]string{}}
		if f.Name == "turn" {
			o.parts = map[*object]bool{}
		} else if o.turn = s.ownerOf(f, e); o.turn != nil {
			o.turn.parts[o] = true
		}
		s.open[key] = o
	case slices.Contains(f.Close, e.Type):
		if o != nil && o.turn != nil {
			delete(o.turn.parts, o)
		}
		delete(s.open, key)
		s.closed.add(key)
	}
}

func (s *state) applyTask(e *Event) {
	id := e.IDs[Task]
	t := s.tasks[id]
	if t == nil {
		if e.Type != "task.created" && (!s.partial || s.closed.set["task "+id]) {
			return
		}
		t = &task{}
		s.tasks[id] = t
	}
	t.status = cmp.Or(e.TaskStatus(), t.status)
	t.apply(e)
	if t.status == "archived" {
		delete(s.tasks, id)
		s.closed.add("task " + id)
	}
}

func (t *task) apply(e *Event) {
	if e.Type == "task.created" || e.Type == "task.updated" && e.field("acceptance") != nil {
		t.acceptance = nil
		for i, item := range e.list("acceptance") {
			t.acceptance = append(t.acceptance, acceptanceID(item, i))
		}
	}
	switch e.Type {
	case "task.attempt.started", "task.started":
		t.runs = append(t.runs[max(0, len(t.runs)-63):], e.IDs[Run])
	case "task.retrying":
		t.tried = append(t.tried, t.runs...)
		t.tried, t.runs = t.tried[max(0, len(t.tried)-64):], nil
	}
}

// queueOf is the queue that an event names.
func (s *state) queueOf(e *Event) *queue {
	id := e.IDs[Queue]
	if s.queues[id] == nil {
		s.queues[id] = &queue{map[string]string{}, map[string]string{}}
	}
	return s.queues[id]
}

func (s *state) applyQueue(e *Event) {
	q, entry := s.queueOf(e), queueEntry(e)
	if _, ok := queueOps[e.text("op")]; !ok {
		return
	}
	priority := cmp.Or(e.text("entry.priority"), q.waiting[entry], q.claimed[entry])
	delete(q.waiting, entry)
	delete(q.claimed, entry)
	switch e.text("op") {
	case "enqueue", "restore", "promote":
		q.waiting[entry] = priority
	case "dequeue", "interject":
		q.claimed[entry] = priority
	case "remove", "drop", "settle":
		if s.partial { // else the queue says it
			s.closed.add("entry " + e.IDs[Queue] + " " + entry)
		}
	}
}

// queueEntry is the id of the entry that a change of a queue is about.
func queueEntry(e *Event) string {
	return cmp.Or(e.text("entry.queued_turn_id"), e.text("entry.message_id"), e.IDs[QueuedTurn])
}
