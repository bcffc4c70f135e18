package tui

import (
	"context"
	"time"

	"holon/responses"
	"holon/runner/present"
)

// Target says whom a conversation is with: an agent, or a session at the door.
type Target struct {
	Agent     string // id of an agent; "" with a session
	Session   string // id of a session that is there; "": a new one, made with its first message
	Workspace string // directory of the daemon's host of which a new session gets a private copy; "": no files
}

// backend is the other side of a conversation. Its methods ask the daemon and are called outside of Update. Errors are
// for a person.
type backend interface {
	// follow emits rows, resets and statuses as they come, until ctx ends. It waits for a daemon that is away.
	follow(ctx context.Context, emit func(event)) error
	// submit sends a message until it is answered, which makes it once, and returns the id of an agent's message.
	submit(ctx context.Context, p prompt) (id string, err error)
	// interrupt ends the turn that runs.
	interrupt(ctx context.Context) error
	// page reads what an overlay shows: a list for the id "", else one thing of it.
	page(ctx context.Context, kind, id string) (page, error)
	// act does something to a thing of a page, or to the conversation, and says what was done.
	act(ctx context.Context, kind, verb, id string) (string, error)
	// diff reads what was changed and is not applied.
	diff(ctx context.Context) ([]change, error)
	// apply brings changes that were read into the operator's files, and says what was written. One that is another by now
	// is refused.
	apply(ctx context.Context, read []change, allowExecuted bool) (string, error)
}

// event is what a backend tells of its own accord.
type event interface{ event() }

type (
	rowsEvent    []present.Row
	resetEvent   struct{} // what was shown does not connect to what follows
	changedEvent struct{} // what was shown is not the conversation any more; what is follows
	doingEvent   present.Status
	awayEvent    struct{} // the daemon does not answer
	statusEvent  status   // it answers, and this is how things are
)

func (rowsEvent) event()    {}
func (resetEvent) event()   {}
func (changedEvent) event() {}
func (doingEvent) event()   {}
func (awayEvent) event()    {}
func (statusEvent) event()  {}

// status is how a conversation stands.
type status struct {
	Target    Target
	Name      string // how it is called on screen
	State     string // a word or two
	Running   bool   // a turn runs
	Since     time.Time
	Begun     int // turns that were begun by messages from here
	Model     string
	Workspace string
	Queued    int
	Tokens    int64
	Mark      string // before Tokens
	Cost      string // "": unknown
	Isolation string // what is not enforced; "": all is
	Work      string // the current work item
	Hint      string // the command that helps; "": none is needed
}

// prompt is a message with what was attached to it.
type prompt struct {
	Text   string
	Files  []attachment
	Key    string // "Idempotency-Key": however often it is sent, it is one message
	Urgent bool   // it is to reach the turn that runs
}

// attachment is an image or a file that goes with a message.
type attachment struct {
	Name string
	Size int
	Part responses.Part
}

// page is what an overlay shows: items to choose from, or a text.
type page struct {
	Title string
	Heads []string
	Items []item
	Text  string
	Raw   bool // the text is no Markdown
	Live  bool // it goes on, and no event tells of it: the output of a task
}

// item is a thing of a page.
type item struct {
	ID    string
	Cells []string
	Mark  bool   // it is the current one
	To    Target // of an agent or a session: whom to talk to
}

// change is what was changed in one tree.
type change struct {
	Title    string
	Tree     string   // git's id of the result
	Patch    string   // unified diff of git; "" where it cannot be read from here
	Files    []string // a line for each file
	Executed []string // names of files that programs execute unasked
	Note     string   // what is left out
}
