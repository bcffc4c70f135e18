package oneshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"holon/internal/durable"
	"holon/runner/gateway"
	"holon/state"
)

// noteUsage records, next to the session's record, what the turn took of models so far. It is
// called while the turn runs, from a goroutine of its own.
func (r *execution) noteUsage(a gateway.Account) {
	data, err := json.MarshalIndent(a, "", "  ")
	if err == nil {
		err = durable.WriteFile(filepath.Join(r.run.Dir(), state.UsageFile), append(data, '\n'), 0o600)
	}
	if err != nil {
		r.config.Log.Warn("what the models took is not kept: a holon that attaches to the run would begin "+
			"its budget anew", "run", r.run.ID(), "err", err)
	}
}

// readUsage reads what noteUsage kept last, nothing where no model was asked.
func readUsage(dir string) (a gateway.Account, err error) {
	data, err := durable.ReadFile(filepath.Join(dir, state.UsageFile), maxUsage)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	if err != nil {
		return gateway.Account{}, fmt.Errorf("read %s: %w", state.UsageFile, err)
	}
	return a, nil
}

const maxUsage = 4 << 20 // bytes of model-usage.json
