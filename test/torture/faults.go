package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holon/responses/client"
	"holon/test/load"
)

// playStop stops agentd, or the provider that it asks, for longer than every
// timeout, and lets it go on.
func playStop(ctx context.Context, r *round) {
	model, env, target := "", []string(nil), (*load.Process)(nil)
	if r.chance(2) {
		p, url, err := load.StartModel(ctx, r.dir, r.mark)
		load.Check(err)
		r.later(func() error { p.Kill(); return nil })
		r.pids = append(r.pids, p.PID())
		env = []string{"OPENAI_BASE_URL=" + url, "OPENAI_API_KEY=sk-torture-0123456789"}
		model, target = fmt.Sprintf("openai/fake-%d-1000", 50+r.rng.IntN(300)), p
	}
	s, w := r.newServer(r.dir, model, "--model-idle-timeout", "300ms", "--model-timeout", "2s", "--turn-timeout",
		fmt.Sprintf("%dms", 600+r.rng.IntN(600)), "--task-timeout", "500ms")
	s.hasty, s.Env = true, append(s.Env, env...)
	s.open(ctx)
	if target == nil {
		target = s.Process
	}
	wait := w.begin(ctx, s.Socket())
	<-w.struck
	r.tell("SIGSTOP of %s for 1.5 s", target.Name())
	target.Signal(syscall.SIGSTOP)
	pause(ctx, 1500*time.Millisecond)
	target.Signal(syscall.SIGCONT)
	wait()
	for _, chain := range w.sessions {
		for _, t := range chain {
			if t.accepted && !t.ended {
				load.Failf("%s: the stream broke although agentd goes on: %w", t.id, t.refused)
			}
		}
	}
	if r.chance(2) { // and then once more as after a crash
		s.Kill()
		s.recover(ctx)
	}
	s.inspect(ctx, w, false)
}

func playDisk(ctx context.Context, r *round) {
	data := r.path("d")
	r.mount("tmpfs", data, "tmpfs", fmt.Sprintf("size=%dk", 16384+r.rng.IntN(4096)))
	s, w := r.newServer(data, "", "--min-free-bytes", fmt.Sprint(one(r, 0, 256<<10)))
	kill, hold, leave := r.chance(2), r.upTo(400*time.Millisecond), int64(r.rng.IntN(3))*8<<10
	r.tell("%d bytes are left for %s; killed: %v", leave, hold, kill)
	s.open(ctx)
	wait := w.begin(ctx, s.Socket())
	<-w.struck
	filler := filepath.Join(data, "filler")
	fill(filler, leave)
	pause(ctx, hold)
	if kill {
		s.Kill()
		if r.chance(2) { // it starts, or says why not, and does no harm
			load.Check(s.Launch())
			pause(ctx, 100*time.Millisecond)
			s.Kill()
		}
	} else {
		s.alive(ctx)
	}
	load.Check(os.Remove(filler))
	wait()
	if kill {
		s.recover(ctx)
	} else {
		s.settled(ctx)
	}
	s.inspect(ctx, w, kill)
}

func (s *server) alive(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c := client.Unix(s.Socket())
	defer c.Close()
	if _, err := c.Health(ctx); err != nil {
		load.Failf("while nothing can be written: %w", err)
	}
}

func (s *server) settled(ctx context.Context) {
	load.Check(load.Eventually(ctx, 20*time.Second, func() error {
		open, err := os.ReadDir(filepath.Join(s.State, "open"))
		if err == nil && len(open) > 0 {
			err = fmt.Errorf("%d turns are open after the disk has space again", len(open))
		}
		return err
	}))
}

// fill writes a file until all but leave bytes of the file system are taken.
func fill(path string, leave int64) {
	f, err := os.Create(path)
	if errors.Is(err, syscall.ENOSPC) {
		return
	}
	load.Check(err)
	if _, err := io.Copy(f, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		load.Check(err)
	}
	if leave > 0 {
		load.Check(f.Truncate(max(0, load.Must(f.Stat()).Size()-leave)))
	}
	load.Check(f.Close())
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func (r *round) mount(source, dir, kind, data string) {
	load.Check(os.MkdirAll(dir, 0o755))
	load.Check(os.NewSyscallError("mount", syscall.Mount(source, dir, kind, 0, data)))
	r.later(func() error { return r.unmount(dir) })
}

// unmount takes it away. A container that starts meanwhile has a copy of every
// mount for a moment; what stays busy is a leak.
func (r *round) unmount(dir string) error {
	return load.Eventually(context.Background(), 20*time.Second, func() error { // also when the round was interrupted
		err := syscall.Unmount(dir, 0)
		if err == nil || errors.Is(err, syscall.EINVAL) { // it may not be mounted
			return nil
		}
		return fmt.Errorf("unmount %s: %w", dir, err)
	})
}

// playReadOnly has agentd's file system become read-only by an error of its own,
// as a failing disk makes it, so what was not synced is lost.
func playReadOnly(ctx context.Context, r *round) {
	image, data := r.path("image"), r.path("d")
	load.Check(os.WriteFile(image, nil, 0o600))
	load.Check(os.Truncate(image, 24<<20))
	if out, err := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		load.Failf("mkfs.ext4: %w\n%s", err, out)
	}
	r.attach(ctx, image, data)
	s, w := r.newServer(data, "")
	s.open(ctx)
	wait := w.begin(ctx, s.Socket())
	<-w.struck
	load.Check(breakFileSystem(data))
	hold := r.upTo(300 * time.Millisecond)
	r.tell("the file system is read-only for %s", hold)
	pause(ctx, hold)
	s.alive(ctx)
	wait()
	s.Kill()
	load.Check(r.unmount(data))
	r.attach(ctx, image, data)
	s.recover(ctx)
	s.inspect(ctx, w, true)
}

// attach mounts an image by a loop device, which goes with the mount.
func (r *round) attach(ctx context.Context, image, dir string) {
	load.Check(os.MkdirAll(dir, 0o755))
	load.Check(load.Eventually(ctx, 20*time.Second, func() error {
		out, err := exec.CommandContext(ctx, "mount", "-o", "loop,errors=remount-ro", image, dir).CombinedOutput()
		if err != nil {
			return fmt.Errorf("mount the image: %w\n%s", err, out)
		}
		// A copy of the mount of before, as in a container that starts, holds the broken file system for a moment.
		probe := filepath.Join(dir, "probe")
		if err := errors.Join(os.WriteFile(probe, nil, 0o600), os.Remove(probe)); err != nil {
			return errors.Join(err, syscall.Unmount(dir, 0))
		}
		r.later(func() error { return r.unmount(dir) })
		return nil
	}))
}

// breakFileSystem has the kernel find an error in the file system at dir.
func breakFileSystem(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[1] != dir || !strings.HasPrefix(f[0], "/dev/loop") {
			continue // only ever a loop device
		}
		trigger := filepath.Join("/sys/fs/ext4", filepath.Base(f[0]), "trigger_fs_error")
		err := os.WriteFile(trigger, []byte("torture"), 0)
		if errors.Is(err, syscall.EROFS) {
			err = nil // that is what it says when it did
		}
		return err
	}
	return fmt.Errorf("no loop device is mounted at %s", dir)
}
