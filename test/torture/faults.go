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
)

// playStop stops agentd, or the provider that it asks, for longer than every
// timeout, and lets it go on.
func playStop(ctx context.Context, r *round) error {
	flags := []string{"--model-idle-timeout", "300ms", "--model-timeout", "2s", "--turn-timeout",
		fmt.Sprintf("%dms", 600+r.rng.IntN(600)), "--task-timeout", "500ms"}
	s, err := r.newServer(r.dir, flags...)
	if err != nil {
		return err
	}
	s.hasty = true
	model, target := "", (*process)(nil)
	provider := r.chance(2)
	if provider {
		p, url, err := r.provider(ctx)
		if err != nil {
			return err
		}
		s.env = []string{"OPENAI_BASE_URL=" + url, "OPENAI_API_KEY=sk-torture-0123456789"}
		model, target = fmt.Sprintf("openai/fake-%d-1000", 50+r.rng.IntN(300)), p
	}
	l, err := r.newLoad(s.ws, s.out, model)
	if err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	if !provider {
		target = s.p
	}
	wait := l.begin(ctx, s.socket)
	<-l.struck
	r.tell("SIGSTOP of %s for 1.5 s", target.name)
	if err := target.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := pause(ctx, 1500*time.Millisecond); err != nil {
		return err
	}
	if err := target.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	if err := wait(); err != nil {
		return err
	}
	for _, chain := range l.sessions {
		for _, t := range chain {
			if t.accepted && !t.ended {
				return fmt.Errorf("%s: the stream broke although agentd goes on: %w", t.id, t.refused)
			}
		}
	}
	if r.chance(2) { // and then once more as after a crash
		s.p.kill()
		if err := s.recover(ctx); err != nil {
			return err
		}
	}
	return s.inspect(ctx, l, false)
}

// provider starts a model that answers on a loopback port.
func (r *round) provider(ctx context.Context) (*process, string, error) {
	p, err := r.start("provider", nil, r.dir, filepath.Join(r.lab.bin, "floor"), "model")
	if err != nil {
		return nil, "", err
	}
	r.pids = append(r.pids, p.cmd.Process.Pid)
	url := ""
	err = eventually(ctx, patience, func() error {
		if data := tail(r.path("provider.log"), 200); len(data) > 0 {
			url = "http://" + string(data) + "/v1"
			return nil
		}
		return errors.New("the provider does not start")
	})
	return p, url, err
}

// playDisk fills the disk that agentd writes to.
func playDisk(ctx context.Context, r *round) error {
	data := r.path("d")
	if err := r.mount("tmpfs", data, "tmpfs", fmt.Sprintf("size=%dk", 16384+r.rng.IntN(4096))); err != nil {
		return err
	}
	s, err := r.newServer(data, "--min-free-bytes", fmt.Sprint([]int{0, 256 << 10}[r.rng.IntN(2)]))
	if err != nil {
		return err
	}
	l, err := r.newLoad(s.ws, s.out, "")
	if err != nil {
		return err
	}
	kill, hold, leave := r.chance(2), r.upTo(400*time.Millisecond), int64(r.rng.IntN(3))*8<<10
	r.tell("%d bytes are left for %s; killed: %v", leave, hold, kill)
	if err := s.open(ctx); err != nil {
		return err
	}
	wait := l.begin(ctx, s.socket)
	<-l.struck
	filler := filepath.Join(data, "filler")
	if err := fill(filler, leave); err != nil {
		return err
	}
	if err := pause(ctx, hold); err != nil {
		return err
	}
	if kill {
		s.p.kill()
		if r.chance(2) { // it starts, or says why not, and does no harm
			if err := s.launch(); err != nil {
				return err
			}
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return err
			}
			s.p.kill()
		}
	} else if err := s.alive(ctx); err != nil {
		return fmt.Errorf("while the disk is full: %w", err)
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	if err := wait(); err != nil {
		return err
	}
	if kill {
		if err := s.recover(ctx); err != nil {
			return err
		}
	} else if err := s.settled(ctx); err != nil {
		return fmt.Errorf("after the disk has space again: %w", err)
	}
	return s.inspect(ctx, l, kill)
}

// alive checks that the server answers.
func (s *server) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c := client.Unix(s.socket)
	defer c.Close()
	_, err := c.Health(ctx)
	return err
}

// settled waits until the server has no turn any more.
func (s *server) settled(ctx context.Context) error {
	return eventually(ctx, 20*time.Second, func() error {
		open, err := os.ReadDir(filepath.Join(s.state, "open"))
		if err == nil && len(open) > 0 {
			err = fmt.Errorf("%d turns are open", len(open))
		}
		return err
	})
}

// fill writes a file until all but leave bytes of the file system are taken.
func fill(path string, leave int64) error {
	f, err := os.Create(path)
	if err != nil {
		return ignoreFull(err)
	}
	_, err = io.Copy(f, zeros{})
	if err = ignoreFull(err); err == nil && leave > 0 {
		var info os.FileInfo
		if info, err = f.Stat(); err == nil {
			err = f.Truncate(max(0, info.Size()-leave))
		}
	}
	return errors.Join(err, f.Close())
}

func ignoreFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// mount mounts a file system for the round.
func (r *round) mount(source, dir, kind, data string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount(source, dir, kind, 0, data); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	r.undo = append(r.undo, func() error { return r.unmount(dir) })
	return nil
}

// unmount takes it away. A container that starts meanwhile has a copy of every
// mount for a moment; what stays busy is a leak.
func (r *round) unmount(dir string) error {
	return eventually(context.Background(), 20*time.Second, func() error { // also when the round was interrupted
		err := syscall.Unmount(dir, 0)
		if errors.Is(err, syscall.EINVAL) {
			return nil // not mounted
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", dir, err)
		}
		return nil
	})
}

// playReadOnly has agentd's file system become read-only by an error of its own,
// as a failing disk makes it, so what was not synced is lost.
func playReadOnly(ctx context.Context, r *round) error {
	image, data := r.path("image"), r.path("d")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(image, 24<<20); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4: %w\n%s", err, out)
	}
	if err := r.attach(ctx, image, data); err != nil {
		return err
	}
	s, err := r.newServer(data)
	if err != nil {
		return err
	}
	l, err := r.newLoad(s.ws, s.out, "")
	if err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	wait := l.begin(ctx, s.socket)
	<-l.struck
	if err := breakFileSystem(data); err != nil {
		return err
	}
	hold := r.upTo(300 * time.Millisecond)
	r.tell("the file system is read-only for %s", hold)
	if err := pause(ctx, hold); err != nil {
		return err
	}
	if err := s.alive(ctx); err != nil {
		return fmt.Errorf("while the file system is read-only: %w", err)
	}
	if err := wait(); err != nil {
		return err
	}
	s.p.kill()
	if err := r.unmount(data); err != nil {
		return err
	}
	if err := r.attach(ctx, image, data); err != nil {
		return err
	}
	if err := s.recover(ctx); err != nil {
		return err
	}
	return s.inspect(ctx, l, true)
}

// attach mounts an image by a loop device, which goes with the mount.
func (r *round) attach(ctx context.Context, image, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return eventually(ctx, 20*time.Second, func() error {
		out, err := exec.CommandContext(ctx, "mount", "-o", "loop,errors=remount-ro", image, dir).CombinedOutput()
		if err != nil {
			return fmt.Errorf("mount the image: %w\n%s", err, out)
		}
		// Who copied the mount of before, as a container that starts does, holds the broken file system for a moment.
		probe := filepath.Join(dir, "probe")
		if err := errors.Join(os.WriteFile(probe, nil, 0o600), os.Remove(probe)); err != nil {
			return errors.Join(err, syscall.Unmount(dir, 0))
		}
		r.undo = append(r.undo, func() error { return r.unmount(dir) })
		return nil
	})
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
		trigger, err := os.OpenFile(filepath.Join("/sys/fs/ext4", filepath.Base(f[0]), "trigger_fs_error"), os.O_WRONLY,
			0)
		if err != nil {
			return err
		}
		_, err = trigger.WriteString("torture")
		if errors.Is(err, syscall.EROFS) {
			err = nil // that is what it says when it did
		}
		return errors.Join(err, trigger.Close())
	}
	return fmt.Errorf("no loop device is mounted at %s", dir)
}
