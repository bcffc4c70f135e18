package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"holon/responses"
	"holon/responses/stream"
	"holon/test/load"
	"holon/test/torture/check"
)

// daemon is a holon serve that clients speak Open Responses to, over its socket and its port.
type daemon struct {
	*world
	socket, port *caller
	repo         *repository
	local        bool
	number       int             // of turns, makes their keys
	over         []*inquiry      // of earlier strikes
	seen         map[string]bool // responses, by id
}

// appToken is that of the clients that come over the port, who are another user than those of the socket.
const appToken = "a-token-of-torture-that-is-long-enough-for-a-file"

func playSessions(ctx context.Context, r *round)        { r.playConversations(ctx, true) }
func playSessionsInPlace(ctx context.Context, r *round) { r.playConversations(ctx, false) }

// playConversations lets clients hold conversations while what answers them is hit. The rounds share a daemon and its
// home.
func (r *round) playConversations(ctx context.Context, local bool) {
	d := r.newConversations(ctx, local)
	r.rounds = 0
	for n := range r.lab.strikes {
		r.tell("strike %d", n)
		r.rounds++
		d.guard(func() { d.strike(ctx) })
	}
	d.guard(func() { d.end(ctx) })
}

func (r *round) newConversations(ctx context.Context, local bool) *daemon {
	d := &daemon{local: local, seen: make(map[string]bool), repo: r.newRepository(ctx, 0)}
	listener := load.Must(net.Listen("tcp", "127.0.0.1:0"))
	address := listener.Addr().String()
	load.Check(listener.Close())
	tokens := r.path("tokens")
	load.Check(os.WriteFile(tokens, []byte("app:"+appToken+":sessions+agents=all\n"), 0o600))
	settings := []string{"--session-pause=" + one(r, "200ms", "1m"), "--session-stop=" + one(r, "1s", "15m")}
	env := []string{"HOLON_MAX_CONTAINERS=" + one(r, "2", "16")}
	r.tell("settings %s %s", strings.Join(settings, " "), strings.Join(env, " "))
	d.world = &world{r: r, place: r.lab.place}
	if d.local {
		env = append(env, "HOLON_ENGINE=local", r.mark)
	} else {
		env = append(env, d.open()...)
	}
	o := load.Options{Dir: r.dir, Env: env, Script: load.Must(json.Marshal(conversationScript())), // YAML includes JSON
		Roots: []string{d.repo.dir}, Flags: append(settings, "--listen="+address, "--tokens-file="+tokens)}
	d.serve = load.Must(load.New(o))
	if !d.local {
		r.later(func() error { return d.place.remove(d.serve.Home) })
	}
	r.later(func() error { d.serve.Close(); return nil })
	load.Check(d.serve.Start(ctx))
	d.socket = &caller{base: "http://holon/v1", http: load.Unix(d.serve.Socket)}
	d.port = &caller{base: "http://" + address + "/v1", token: appToken, http: &http.Client{Transport: &http.Transport{}}}
	r.later(func() error { d.socket.http.CloseIdleConnections(); d.port.http.CloseIdleConnections(); return nil })
	load.Check(d.serve.Create(ctx, "agent-00"))
	d.agents = []string{"agent-00"}
	return d
}

// Words of a conversation. All but the first run a command that writes the key of the request and a number to the file
// ran, once in a turn. An agent, whose prompt has more than the request, takes the last one.
const (
	sayQuick  = "say-quick"
	sayRun    = "say-run"
	saySlow   = "say-slow"
	sayLong   = "say-long"
	sayStream = "say-stream"
	sayAgent  = "say-agent"
)

// conversationScript is what the model plays for every request.
func conversationScript() object {
	mark := func(more string) []any {
		return []any{object{"tool": "ExecCommand", "arguments": object{
			"cmd": "echo {{last_user:key-[0-9]+-[0-9]+}} {{round}} >> ran" + more, "yield_time_ms": 20_000}}}
	}
	when := func(word string, round object) object {
		round["when"] = object{"user": object{"matches": word}}
		return round
	}
	return object{"rounds": []any{
		object{"cases": []any{
			when(sayAgent, object{"text": "I run.", "calls": []any{object{"tool": "ExecCommand",
				"arguments": object{"cmd": `echo "$HOLON_TURN_ID {{round}}" >> ran`}}}}),
			when(sayQuick, object{"text": "Said at once, in some pieces.", "chunk_size": 4}),
			when(saySlow, object{"text": "I wait.", "calls": mark("; sleep 0.3")}),
			when(sayStream, object{"repeat": object{"text": "word ", "count": 150, "gap": "2ms"}, "calls": mark("")}),
			object{"text": "I run.", "calls": mark("")},
		}},
		object{"cases": []any{when(sayLong, object{"calls": mark("")}), object{"text": "Done."}}},
		object{"cases": []any{when(sayLong, object{"text": "Again.", "calls": mark("; sleep 0.1")}),
			object{"text": "Done."}}},
		object{"text": "Done at last."},
	}}
}

// effects are how many commands a turn runs that ends well.
func effects(word string) int {
	switch word {
	case sayQuick, sayAgent:
		return 0
	case sayLong:
		return 3
	}
	return 1
}

// strike lets clients hold conversations, hits something meanwhile, waits until all is quiet, and checks what must hold
// then.
func (d *daemon) strike(ctx context.Context) {
	var talks [][]*inquiry
	for range 3 + d.r.rng.IntN(3) {
		talks = append(talks, d.drawTalk())
	}
	faults, after := d.drawFaults(), d.r.upTo(900*time.Millisecond)
	d.r.tell("after %s: %s", after, strings.Join(namesOfFaults(faults), ", "))
	talking, cancel := context.WithTimeoutCause(ctx, load.Patience, errors.New("a client has no answer in time"))
	defer cancel()
	var group sync.WaitGroup
	errs := make([]error, len(talks))
	for i, talk := range talks {
		group.Go(func() { errs[i] = follow(talking, talk) })
	}
	err := load.Guard(func() {
		pause(ctx, after)
		d.hit(ctx, faults)
	})
	group.Wait()
	load.Check(errors.Join(append(errs, err)...))
	var asked []*inquiry
	for _, talk := range talks {
		asked = append(asked, talk...)
	}
	d.inspect(ctx, asked)
	d.r.turns += len(asked)
}

// faults of a daemon; those of the engine are for one that has containers.
func (d *daemon) drawFaults() []fault {
	list := []fault{
		{name: "kill holon", weight: 8, inject: killServe},
		{name: "SIGTERM", weight: 4, inject: restart},
		{name: "stop holon for a while", weight: 1, inject: freeze},
		{name: "close a session", weight: 2, inject: d.closeOne},
		{name: "nothing", weight: 1, inject: func(context.Context, *world, fault) {}},
	}
	if d.local {
		list = append(list, fault{name: "kill agentd", weight: 8, inject: killChildren})
	} else {
		list = append(list, fault{name: "kill holon and remove its containers", weight: 3, inject: killAll},
			fault{name: "cut the engine off", weight: 1, inject: cutEngine})
		list = append(list, d.place.faults()...)
	}
	return []fault{d.r.drawFault(list)}
}

// killChildren kills the agentds of a daemon whose containers are processes, which are its children.
func killChildren(_ context.Context, w *world, _ fault) {
	for _, pid := range load.Tree(w.serve.PID())[1:] {
		if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); filepath.Base(exe) == "agentd" { // it may have ended
			killProcess(pid)
		}
	}
}

// closeOne closes a session, whatever goes on in it.
func (d *daemon) closeOne(ctx context.Context, _ *world, _ fault) {
	list, err := d.socket.sessions(ctx)
	if err != nil || len(list) == 0 {
		return // none is there yet
	}
	status, _, err := d.socket.call(ctx, http.MethodPost, "/holon/sessions/"+list[0].ID+"/close", nil)
	if err == nil && status >= 300 {
		err = fmt.Errorf("the session %s cannot be closed: %d", list[0].ID, status)
	}
	load.Check(err)
}

// inspect waits until no turn goes on, and checks what must hold of all of them.
func (d *daemon) inspect(ctx context.Context, asked []*inquiry) {
	dir := filepath.Join(d.serve.Home, "sessions")
	var c *check.Conversations
	load.Check(load.Eventually(ctx, load.Patience, func() (err error) {
		if c, err = check.ReadConversations(dir); err == nil && len(c.Going) > 0 {
			err = fmt.Errorf("turns have no end: %v", c.Going)
		}
		return err
	}))
	keep := append(asked, d.over[max(0, len(d.over)-6):]...) // what was said before is found too
	for _, q := range keep {
		if err := d.inspectOne(ctx, c, q); err != nil {
			load.Failf("%s (%s): %w", q.key, q, err)
		}
	}
	for id := range c.Responses {
		if !d.seen[id] { // its client may not know of it
			load.Check(d.there(ctx, id))
			d.seen[id] = true
		}
	}
	load.Check(c.Settled())
	load.Check(d.found(ctx, c))
	for _, agent := range d.agents {
		load.Must(check.Once(d.serve.Ran(agent)))
	}
	d.over = append(d.over, asked...)
}

// there checks that a response of anybody is there and is over, or was deleted by a request whose answer was lost.
func (d *daemon) there(ctx context.Context, id string) error {
	for _, caller := range []*caller{d.socket, d.port} {
		status, body, err := caller.call(ctx, http.MethodGet, "/responses/"+id, nil)
		if err != nil || status != http.StatusOK && status != http.StatusNotFound {
			return fmt.Errorf("the response %s cannot be read: %d %.300s: %w", id, status, body, err)
		}
		if status == http.StatusNotFound {
			continue
		}
		if r, err := responses.DecodeResponse(body); err != nil || !r.Status.Terminal() {
			return fmt.Errorf("the response %s is not over: %.300s: %w", id, body, err)
		}
	}
	return nil
}

// inspectOne checks one request: that its response is there as often as it has to, and that its client has read what is
// stored.
func (d *daemon) inspectOne(ctx context.Context, c *check.Conversations, q *inquiry) error {
	if q.id == "" {
		return nil // refused, or of unknown outcome
	}
	if q.deleted {
		if status, _, err := q.caller.call(ctx, http.MethodGet, "/responses/"+q.id, nil); err != nil || status != 404 {
			return fmt.Errorf("a deleted response is answered with %d: %w", status, err)
		}
		return nil
	}
	if other := d.other(q.caller); other != nil {
		if status, _, err := other.call(ctx, http.MethodGet, "/responses/"+q.id, nil); err != nil || status != 404 {
			return fmt.Errorf("another user is answered with %d: %w", status, err)
		}
	}
	status, replay, err := q.caller.call(ctx, http.MethodGet, "/responses/"+q.id+"?stream=true",
		http.Header{"Accept": {q.framing().ContentType()}})
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("its stream cannot be read: %d, %w: %.300s", status, err, replay)
	}
	again, err := framed(replay, q.framing())
	if err != nil {
		return fmt.Errorf("its stream: %w", err)
	}
	if !bytes.Equal(again, q.seen) {
		return fmt.Errorf("a client read %d bytes, and a later one %d:\n%.3000s\n---\n%.3000s", len(q.seen), len(again),
			q.seen, again)
	}
	if q.agent {
		return nil
	}
	stored, err := c.Stored(q.id)
	if err != nil {
		return err
	}
	if !bytes.Equal(stored, q.seen) {
		return fmt.Errorf("a client read %d bytes of a stream of %d", len(q.seen), len(stored))
	}
	if q.status == "completed" {
		for n := range effects(q.word) {
			if line := fmt.Sprintf("%s %d", q.key, n+1); !c.Effects[line] {
				return fmt.Errorf("it was completed, and its command %q left nothing", line)
			}
		}
	}
	return nil
}

func (d *daemon) other(c *caller) *caller {
	if c == d.socket {
		return d.port
	}
	return nil // those of the socket are the operator
}

// found checks that every session that has a response is listed for its owner.
func (d *daemon) found(ctx context.Context, c *check.Conversations) error {
	listed := make(map[string]bool)
	for _, caller := range []*caller{d.socket, d.port} {
		list, err := caller.sessions(ctx)
		if err != nil {
			return err
		}
		for _, x := range list {
			listed[x.ID] = true
		}
	}
	for id, t := range c.Responses {
		if !listed[t.Session] {
			return fmt.Errorf("the session %s of %s is not listed", t.Session, id)
		}
	}
	return nil
}

// askAgents has each agent make another turn: what a kill cut off in the directory of a turn is removed when its agentd
// is used again, which reading a response of an agent does not do.
func (d *daemon) askAgents(ctx context.Context) (asked []*inquiry) {
	for _, agent := range d.agents {
		d.number++
		q := &inquiry{caller: d.socket, key: fmt.Sprintf("key-%d-%d", d.r.number, d.number), model: "agent/" + agent,
			word: sayAgent, via: viaJSON, by: byNone, agent: true}
		load.Check(q.ask(ctx))
		asked = append(asked, q)
	}
	return asked
}

// end closes what is open, lets the daemon end, and checks that nothing of it is left.
func (d *daemon) end(ctx context.Context) {
	for _, caller := range []*caller{d.socket, d.port} {
		for _, x := range load.Must(caller.sessions(ctx)) {
			if x.Status == "closed" || d.r.chance(2) {
				continue
			}
			status, body, err := caller.call(ctx, http.MethodPost, "/holon/sessions/"+x.ID+"/close", nil)
			if err != nil || status >= 300 {
				load.Failf("the session %s cannot be closed: %d %s: %w", x.ID, status, body, err)
			}
			load.Must(os.Stat(filepath.Join(d.serve.Home, "sessions", x.ID, "manifest.json")))
		}
	}
	d.inspect(ctx, d.askAgents(ctx))
	load.Check(d.serve.End())
	if !d.local {
		if left := load.Must(d.place.containers(ctx, d.serve.Home, "")); len(left) > 0 {
			load.Failf("containers are left: %v", left)
		}
	}
	// A kill may leave a directory of the local engine without a record, which a later start removes.
	for _, left := range append(load.Must(filepath.Glob(filepath.Join(d.serve.Home, "ipc", "*"))),
		load.Must(filepath.Glob(filepath.Join(d.serve.Home, "local", "*", "record.json")))...) {
		load.Failf("%s is left of a container", left)
	}
	load.Check(os.RemoveAll(filepath.Join(d.serve.Home, "local")))
	// A write that was cut off in agentd's state is removed when that is used again, which it may never be.
	for _, left := range load.Must(filepath.Glob(filepath.Join(d.serve.Home, "sessions/*/session/state/.tmp-*"))) {
		load.Check(os.Remove(left))
	}
	load.Check(errors.Join(check.NoSocket(d.serve.Home), check.NoTemporary(d.serve.Home), check.NoLock(d.serve.Home),
		check.NoProcess(d.r.mark, d.serve.Home)))
}

// framed are the events of an answer, a line each.
func framed(body []byte, f stream.Framing) (lines []byte, err error) {
	for event, err := range stream.NewDecoder(bytes.NewReader(body), f).Events() {
		if err != nil {
			return nil, err
		}
		lines = append(append(lines, event...), '\n')
	}
	return lines, nil
}
