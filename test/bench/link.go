package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"holon/internal/transfer"
	"holon/runner/engine"
	"holon/runner/engine/docker"
	"holon/runner/engine/link"
	"holon/test/load"
)

const withMounts = "the same with mounts"

// measureLink is P37: containers that share no directory with the host, beside those with mounts: whole runs, turns of
// a warm session, and directories of files.
func measureLink(ctx context.Context, r *rig) []row {
	script := filepath.Join(r.newDir(), "run.yaml")
	load.Check(os.WriteFile(script, []byte(`{"rounds":[{"text":"Done."}]}`), 0o644))
	run := func(link, dir string) func(context.Context) []float64 {
		return func(ctx context.Context) []float64 {
			return r.command(ctx, dir, r.holon, "run", "--quiet", "--link", link, "--model", "scripted/"+script, "x")
		}
	}
	measured := func(what, dir string, samples int) row {
		got := compare(ctx, r.plan(samples, 3, 1), subject{engine.LinkMounts, run(engine.LinkMounts, dir)},
			subject{engine.LinkStream, run(engine.LinkStream, dir)})
		return versus("P37", what, withMounts, unitMS, got[1][0], got[0][0])
	}
	rows := []row{measured("holon run, a scripted answer, by a stream", r.newDir(), 10).ratioGoal(1.5)}
	rows = append(rows, measureLinkTurns(ctx, r)...)
	rows = append(rows, measureLinkFiles(ctx, r)...)
	return append(rows, measured("holon run in a repository of 5,000 files", r.newRepository(ctx, 5000).dir, 5))
}

// answerRead is how long somebody takes to read an answer, while the turn is recorded and its files are fetched.
const answerRead = 100 * time.Millisecond

// measureLinkTurns measures turns of two warm sessions at the doors of two daemons.
func measureLinkTurns(ctx context.Context, r *rig) []row {
	long := r.samples(10_000, 2_000)
	doors := make(map[string]*door)
	for _, link := range []string{engine.LinkMounts, engine.LinkStream} {
		d := r.openDoor(ctx, sessionScript(long, 1), "HOLON_ENGINE=docker", "HOLON_LINK="+link, "HOLON_IMAGE="+r.image,
			"HOLON_AGENTD="+r.agentd)
		d.create(ctx, d.say("Say something.", "bench"))
		doors[link] = d
	}
	mounts, stream := doors[engine.LinkMounts], doors[engine.LinkStream]
	firsts := compare(ctx, r.plan(200, 20, 10), mounts.first("bench", answerRead), stream.first("bench", answerRead))
	atOnce := compare(ctx, r.plan(200, 20, 10), mounts.first("bench", 0), stream.first("bench", 0))
	flood := compare(ctx, r.plan(15, 3, 1), mounts.rate("bench", "many", long), stream.rate("bench", "many", long))
	event := versus("P37", "a warm session by a stream: POST → first event", withMounts, unitMS, firsts[1][0],
		firsts[0][0])
	return []row{
		event.goal("≤ +2 ms", event.Ours-event.Floor <= 2),
		versus("P37", "the same at once after the turn before", withMounts, unitMS, atOnce[1][0], atOnce[0][0]),
		versus("P37", fmt.Sprintf("a stream of %d deltas by a stream", long), withMounts, unitRate, flood[1][0],
			flood[0][0]).leastGoal(0.5),
	}
}

// linkFiles is the number of files in the directory that is moved, and linkChanged of those that differ later.
const linkFiles, linkChanged = 5000, 10

// measureLinkFiles measures how a directory of small files comes into a container that is made, and how those that
// differ follow while it runs.
func measureLinkFiles(ctx context.Context, r *rig) []row {
	repo := r.newRepository(ctx, linkFiles)
	tree := r.newDir()
	load.Check(os.CopyFS(tree, os.DirFS(repo.addTree(ctx))))
	load.Check(os.RemoveAll(filepath.Join(tree, ".git")))
	var spec engine.Spec
	spec.Image, spec.Args, spec.Labels = r.image, []string{"/floor", "serve", "/tmp/s"}, map[string]string{label: r.id}
	spec.User = &engine.User{UID: os.Getuid(), GID: os.Getgid()}
	spec.Sockets.Bridge = []string{"/holon/agentd", "bridge"}
	create := func(e *docker.Engine) engine.Handle {
		r.next++
		spec.Name = fmt.Sprintf("bench-%s-%d", r.id, r.next)
		return load.Must(e.Create(ctx, spec))
	}
	made := func(e *docker.Engine, dir string) func(context.Context) []float64 {
		return func(ctx context.Context) []float64 {
			spec.Mounts = []engine.Mount{{Source: r.agentd, Target: "/holon/agentd", ReadOnly: true},
				{Source: dir, Target: "/holon/tree"}}
			var h engine.Handle
			took := timed(func() { h = create(e) })
			r.later(func() error { return e.Remove(context.WithoutCancel(ctx), h) }) // ext4 is slow after deletions
			return []float64{ms(took)}
		}
	}
	stream := load.Must(docker.New(r.opts.docker, ""))
	stream.SetLink(engine.LinkStream)
	r.later(stream.Close)
	copied := func(context.Context) []float64 {
		to := r.newDir()
		return []float64{ms(timed(func() { load.Check(os.CopyFS(to, os.DirFS(tree))) }))}
	}
	got := compare(ctx, r.plan(5, 3, 1), subject{"copy", copied}, subject{"tree", made(stream, tree)})
	in := versus("P37", fmt.Sprintf("a container is made with a directory of %d files", linkFiles),
		"a copy of the directory", unitMS, got[1][0], got[0][0]).absoluteGoal(2000)

	h := create(stream)
	r.later(func() error { return stream.Remove(context.WithoutCancel(ctx), h) })
	load.Check(stream.Start(ctx, h))
	joined := load.Must(link.Join(ctx, stream, h, spec))
	r.later(joined.Close)
	files := link.Open(stream, h, joined, true, "")
	r.later(func() error { files.Close(); return nil })
	sync := func() { load.Must(files.Sync(ctx, spec, transfer.Limits{})) }
	sync()
	round := 0
	differ := compare(ctx, r.plan(20, 3, 1), subject{"differences", func(context.Context) []float64 {
		round++
		for i := range linkChanged {
			load.Check(os.WriteFile(filepath.Join(tree, repo.file(i*linkFiles/linkChanged)), fmt.Appendln(nil, round), 0o644))
		}
		return []float64{ms(timed(sync))}
	}})
	return []row{
		in,
		row{ID: "P37", What: fmt.Sprintf("%d files that differ of those %d follow", linkChanged, linkFiles), Unit: unitMS,
			Ours: median(differ[0][0])}.absoluteGoal(300),
	}
}
