package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"holon/test/load"
)

// sessionScript is what the model of sessions plays, without a gateway: what is measured is the door.
func sessionScript(long, paced int) []byte {
	when := func(word string, repeat object) object {
		return object{"when": object{"user": object{"matches": word}}, "repeat": repeat}
	}
	return load.Must(json.Marshal(object{"rounds": []object{{"cases": []object{
		when("many", object{"text": "word ", "count": long}),
		when("paced", object{"text": "word ", "count": paced, "gap": "5ms"}),
		{"text": "Said."},
	}}}})) // YAML includes JSON
}

// idleSessions is the number of sessions whose memory P36 measures.
const idleSessions = 50

// measureSessions is P33 to P36: what clients wait for at the door of a daemon, against the socket of the agentd behind
// it, which is the same for both; and what a session costs the daemon that is warm and idle. The engine is the local
// one.
func measureSessions(ctx context.Context, r *rig) []row {
	long, paced := r.samples(10_000, 2_000), r.samples(200, 50)
	front := r.openDoor(ctx, sessionScript(long, paced), "HOLON_ENGINE=local", "HOLON_AGENTD="+r.agentd,
		"HOLON_MAX_CONTAINERS=64", "HOLON_TOKEN_MAX_SESSIONS=64")
	front.create(ctx, front.say("Say something.", "bench"))
	sockets := load.Must(filepath.Glob(filepath.Join(front.daemon.Home, "ipc", "*", "ipc", "agent.sock")))
	if len(sockets) != 1 {
		load.Failf("%d sockets of agentd, want one", len(sockets))
	}
	agentd := &door{r.at(sockets[0], "http://agentd"), front.daemon}
	proxy := &door{r.serveProxy(ctx, sockets[0]), front.daemon}
	const direct = "direct"
	firsts := compare(ctx, r.plan(500, 30, 10), agentd.first(direct, 0), front.first("bench", 0),
		proxy.first(direct, 0))
	even := compare(ctx, r.plan(5, 3, 1), agentd.rate(direct, "paced", paced), front.rate("bench", "paced", paced))
	flood := compare(ctx, r.plan(15, 3, 1), agentd.rate(direct, "many", long), front.rate("bench", "many", long))
	const against = "the socket of its agentd"
	event := versus("P33", "a warm session at the door: POST → first event", against, unitMS, firsts[1][0], firsts[0][0])
	return []row{
		event.goal("≤ +0.3 ms", event.Ours-event.Floor <= 0.3),
		versus("P33", "the same through the proxy of net/http", against, unitMS, firsts[2][0], firsts[0][0]),
		versus("P34", fmt.Sprintf("a paced stream of %d deltas at the door", paced), against, unitRate, even[1][0],
			even[0][0]).leastGoal(0.9),
		versus("P35", fmt.Sprintf("a stream of %d deltas at the door", long), against, unitRate, flood[1][0],
			flood[0][0]).leastGoal(0.7),
		measureIdle(ctx, r, front),
	}
}

// door is where clients of a daemon ask for turns of their sessions, or what stands for it.
type door struct {
	*server
	daemon *load.Server
}

// openDoor starts a daemon with a scripted model.
func (r *rig) openDoor(ctx context.Context, script []byte, env ...string) *door {
	s := load.Must(load.New(load.Options{Dir: r.newDir(), Engine: r.opts.docker, Script: script, Env: env}))
	r.later(func() error { s.Close(); return load.RemoveContainers(s.Home) })
	load.Check(s.Start(ctx))
	return &door{r.at(s.Socket, "http://holon/v1"), s}
}

func (d *door) say(what, session string) ask {
	return ask{Model: d.daemon.Model(), Input: what, Holon: map[string]string{"session_id": session}}
}

// first measures the time to the first event of turns that each continue the response before, as those of a session do,
// after a pause.
func (d *door) first(session string, pause time.Duration) subject {
	next := d.say("Say something.", session)
	return subject{"first event", func(ctx context.Context) []float64 {
		load.Check(load.Pause(ctx, pause))
		got := d.stream(ctx, next)
		next.Previous = got.id
		return []float64{ms(got.first)}
	}}
}

// rate measures the events a second of a turn with so many deltas.
func (d *door) rate(session, what string, count int) subject {
	return subject{what, func(ctx context.Context) []float64 {
		var got *streamed
		took := timed(func() { got = d.stream(ctx, d.say(what, session)) })
		got.whole(count)
		return []float64{float64(got.events) / took.Seconds()}
	}}
}

// measureIdle is P36.
func measureIdle(ctx context.Context, r *rig, d *door) row {
	n := r.samples(idleSessions, 10)
	resident := func() float64 {
		load.Check(load.Pause(ctx, 2*time.Second))
		return load.Resident(d.daemon.PID()) / 1e6
	}
	before := resident()
	parallel(ctx, n, runtime.NumCPU(), func(ctx context.Context, i int) {
		d.create(ctx, d.say("Say something.", fmt.Sprint("idle-", i)))
	})
	each := (resident() - before) / float64(n)
	return row{ID: "P36", What: fmt.Sprintf("memory of holon serve for each of %d sessions that are warm and idle", n),
		Unit: unitMB, Ours: each}.absoluteGoal(0.5)
}
