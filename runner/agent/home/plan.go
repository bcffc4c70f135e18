package home

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"holon/internal/folder"
	"holon/internal/roots"
	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner/agent/view"
	"holon/state"
)

// Bounds of plans, in bytes.
const (
	MaxPlan     = 256 << 10
	planPreview = 2 << 10
)

// SeedPlan writes the first plan of a work item, which is then the agent's. What is there stays.
func (h *Homes) SeedPlan(_ context.Context, agentID, itemID, text string) error {
	if err := state.CheckAgentID(agentID); err != nil {
		return err
	}
	root, err := roots.Open(h.opts.Home.AgentDir(agentID))
	if err != nil {
		return fmt.Errorf("open the agent's home: %w", err)
	}
	defer root.Close()
	for _, dir := range []string{path.Dir(path.Dir(view.PlanFile(itemID))), path.Dir(view.PlanFile(itemID))} {
		if err := addFolder(root, dir); err != nil {
			return err
		}
	}
	_, err = add(root, view.PlanFile(itemID), []byte(text))
	return err
}

// Plan describes the plan of a work item, nil when it has none. The agent's container writes the file, so a file
// that is not plain text of a fair size is reported and not read.
func (h *Homes) Plan(agentID, itemID string) *view.PlanArtifact {
	if state.CheckAgentID(agentID) != nil {
		return nil
	}
	plan := &view.PlanArtifact{OwnerAgentID: agentID, RelativePath: view.PlanFile(itemID)}
	data, changed, err := h.read(agentID, view.PlanFile(itemID), MaxPlan+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && len(data) > MaxPlan:
		err = errPlanLarge
	case err == nil && !utf8.Valid(data):
		err = errPlanText
	}
	text := string(data)
	if err != nil {
		plan.Refused = err.Error()
		return plan
	}
	sum := sha256.Sum256([]byte(text))
	plan.Hash, plan.Bytes, plan.UpdatedAt = hex.EncodeToString(sum[:]), int64(len(text)), turns.At(changed)
	plan.Preview = visible.Text(text)
	if plan.PreviewComplete = len(plan.Preview) <= planPreview; !plan.PreviewComplete {
		plan.Preview = strings.ToValidUTF8(plan.Preview[:planPreview], "")
	}
	return plan
}

var (
	errPlanFile   = errors.New("it is not a plain file")
	errPlanClosed = errors.New("its permissions do not let the runtime read it")
	errPlanLarge  = fmt.Errorf("it has more than %d bytes", MaxPlan)
	errPlanText   = errors.New("it is not UTF-8 text")
)

// Text returns a text file of an agent's home and when it changed, as much of it as can be read: the first MaxPlan
// bytes count, without known secrets, of which none is cut, and what of them is not UTF-8 is U+FFFD. Errors:
// fs.ErrNotExist, and of what is not a plain file.
func (h *Homes) Text(agentID, name string) (text string, changed time.Time, err error) {
	data, changed, err := h.read(agentID, name, MaxPlan+1)
	clean := h.opts.Secrets.Stream()
	text = string(clean.Next(data[:min(len(data), MaxPlan)]))
	if len(data) <= MaxPlan {
		text += string(clean.Rest())
	}
	return strings.ToValidUTF8(text, "\ufffd"), changed, err
}

// read returns the first bytes of a file of an agent's home, and when it changed. Its container writes the file, so no
// link is followed; one that does not exist is fs.ErrNotExist.
func (h *Homes) read(agentID, name string, most int64) (data []byte, changed time.Time, err error) {
	if err := state.CheckAgentID(agentID); err != nil {
		return nil, changed, err
	}
	dir, err := folder.Open(h.opts.Home.AgentDir(agentID))
	if err != nil {
		return nil, changed, err
	}
	defer dir.Close()
	at := folder.NewCursor(dir, false)
	defer at.Close()
	parent, name, err := at.Parent(name)
	if err != nil {
		return nil, changed, planError(err)
	}
	f, _, err := parent.OpenFile(name)
	if err != nil {
		return nil, changed, planError(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, changed, fmt.Errorf("read it: %w", err)
	}
	if data, err = io.ReadAll(io.LimitReader(f, most)); err != nil {
		return nil, changed, fmt.Errorf("read it: %w", err)
	}
	return data, info.ModTime().UTC().Truncate(time.Millisecond), nil
}

// planError says of a name that exists why it is not read, without its path.
func planError(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOENT) {
		return fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrPermission) {
		return errPlanClosed
	}
	return errPlanFile
}
