package kubernetes

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"holon/internal/transfer"
	"holon/runner/engine"
)

// Paths in the volume that "agentd pod" knows.
const (
	startFile = "start.json"
	binary    = binDir + "/agentd"
	// beneath is before every path in a tar.
	beneath = "files/"
)

// send copies the sources of the mounts into the volume of a Pod, and what Start is to start.
func (e *Engine) send(ctx context.Context, h engine.Handle, spec engine.Spec) error {
	pod, err := e.find(ctx, h)
	if err != nil {
		return err
	}
	stream, err := e.files(ctx, pod, "unpack", volumePath)
	if err != nil {
		return err
	}
	defer stream.Close()
	from := bufio.NewReader(stream)
	sum, err := from.ReadString('\n')
	if err == nil {
		err = pack(ctx, stream, spec, strings.TrimSpace(sum))
	}
	// Why the other side stopped reading counts for more than that it did.
	if _, readErr := io.Copy(io.Discard, from); readErr != nil {
		err = readErr
	}
	return wrap("send files to Pod "+h.Name, err)
}

// pack writes the tar that "agentd pod unpack" reads. sum is the SHA-256 of what the Pod has as agentd, which is not
// sent again.
func pack(ctx context.Context, to io.Writer, spec engine.Spec, sum string) error {
	out := bufio.NewWriterSize(to, 64<<10)
	tw := tar.NewWriter(out)
	start, err := json.Marshal(map[string][]string{"args": spec.Args, "env": spec.Env})
	if err == nil {
		err = tw.WriteHeader(&tar.Header{Name: beneath + startFile, Mode: 0o600, Size: int64(len(start))})
	}
	if err == nil {
		_, err = tw.Write(start)
	}
	for _, m := range spec.Mounts {
		switch {
		case err != nil:
		case m.IsDirectory():
			err = transfer.Pack(ctx, tw, m.Source, beneath+place(m.Target), spec.Beneath(m.Target), spec.ComesLate(m),
				spec.Users()...)
		default:
			err = packFile(tw, m, sum)
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(tw.Close(), out.Flush())
}

// packFile writes a file as one that all can read, and run if it can be run.
func packFile(tw *tar.Writer, m engine.Mount, sum string) error {
	data, err := os.ReadFile(m.Source)
	if err != nil {
		return fmt.Errorf("read %s: %w", m.Source, err)
	}
	info, err := os.Stat(m.Source)
	if err != nil {
		return fmt.Errorf("read %s: %w", m.Source, err)
	}
	h := &tar.Header{Name: beneath + place(m.Target), Mode: 0o644, Size: int64(len(data)), ModTime: info.ModTime()}
	if info.Mode()&0o111 != 0 {
		h.Mode = 0o755
	}
	if own := sha256.Sum256(data); hex.EncodeToString(own[:]) == sum {
		h.Typeflag, h.Linkname, h.Size, data = tar.TypeLink, binary, 0, nil
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(tw, bytes.NewReader(data))
	return err
}

// Read implements engine.Linker. dir is the target of a mount. It works while the Pod is there, in a container that
// outlives the program.
func (e *Engine) Read(ctx context.Context, h engine.Handle, dir string) (io.ReadCloser, error) {
	pod, err := e.find(ctx, h)
	if err != nil {
		return nil, err
	}
	if lost(pod, time.Now()) {
		return nil, lostError(pod)
	}
	return e.files(ctx, pod, "pack", volumePath+"/"+place(dir))
}
