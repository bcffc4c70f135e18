package agent

import (
	"context"
	"errors"
	"io/fs"

	"holon/runner/agent/memory"
	"holon/runner/agent/prompt"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state/ledger"
)

// memory is what the ledger has of the memory of a claim's agent, as the claim's conversation needs it.
func (r *Runtime) memory(v ledger.View, c scheduler.Claim) (m prompt.Memory, err error) {
	if m.Memory, _, err = v.Memory(c.Agent.ID); err != nil || c.Attempt.Chain != "" {
		return m, err
	}
	m.Memory = memory.Within(m.Memory, c.Attempt.WorkspaceID)
	all, err := v.Episodes(c.Agent.ID, memory.Candidates)
	m.Episodes = memory.Relevant(all, m.Current, c.Attempt.WorkspaceID)
	return m, err
}

// exportEpisodes writes what the turn that has settled left. The ledger counts, so that a failure holds nothing up.
func (r *Runtime) exportEpisodes(ctx context.Context, agentID string) {
	if r.cfg.ExportEpisodes == nil {
		return
	}
	err := r.cfg.ExportEpisodes(agentID, func(number int64) ([]ledger.Episode, error) {
		return ledger.Read(ctx, r.store, func(v ledger.View) ([]ledger.Episode, error) {
			return v.EpisodesAfter(agentID, number, episodesAtOnce)
		})
	})
	if err != nil {
		r.log.Warn("the episodes of an agent cannot be exported", "agent", agentID, "err", err)
	}
}

// episodesAtOnce is how many episodes are exported at a time.
const episodesAtOnce = 200

// curated are the files that an agent and its operator keep as memory. One that cannot be read is shown as such, and
// one that is not there is as one without text.
func (r *Runtime) curated(agentID string) (list []prompt.CuratedFile) {
	if r.cfg.HomeText == nil {
		return nil
	}
	for _, name := range view.MemoryFiles() {
		text, _, err := r.cfg.HomeText(agentID, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			text = "(The file cannot be shown: " + err.Error() + ".)"
		}
		list = append(list, prompt.CuratedFile{Path: name, Text: r.cfg.Secrets.Text(text)})
	}
	return list
}

// changed are the files that a message of the operator names and that are not any more as they were sent.
func (r *Runtime) changed(m ledger.Message) []string {
	if r.cfg.ChangedFiles == nil || m.Origin.Kind != ledger.OriginOperator {
		return nil
	}
	return r.cfg.ChangedFiles(m.AgentID, rules.SentFiles(m.Body.Text))
}
