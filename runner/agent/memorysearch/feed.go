package memorysearch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/runner/agent/view"
	"holon/state/ledger"
	"holon/state/recall"
)

// Kinds of sources.
const (
	kindFile      = "agent_memory"
	kindWorkspace = "workspace_profile"
	kindBrief     = "brief"
	kindEpisode   = "context_episode"
	kindWork      = "work_item"
)

// pageSize is how many records of a kind are fed at once.
const pageSize = 200

// maxTitle bounds a title, in bytes.
const maxTitle = 120

// cursor is how far an index is.
type cursor struct {
	Brief   int64 `json:"brief"`   // number of the newest
	Oldest  int64 `json:"oldest"`  // number of the oldest brief that there is
	Episode int64 `json:"episode"` // number of the newest
	Work    int64 `json:"work"`    // step with which an item changed last
	// Few are digests of the sources of which all are looked at, because there are few: files and workspaces.
	Few map[string]string `json:"few"`
	// Secrets are the fingerprints of the secrets that the sources were cleaned of.
	Secrets []string `json:"secrets,omitempty"`
}

// errUnclean is of an index that may have a secret which became known after it was fed.
var errUnclean = errors.New("a secret became known since the memory index was made")

// feed brings an index up to date.
func (s *Service) feed(ctx context.Context, ix *recall.Index, agentID string) error {
	data, err := ix.Cursor(ctx)
	if err != nil {
		return err
	}
	at, known := cursor{Few: map[string]string{}}, s.opts.Secrets.Fingerprints(s.opts.Key)
	if data == "" {
		at.Secrets = known
	} else {
		if err := json.Unmarshal([]byte(data), &at); err != nil {
			return fmt.Errorf("%w: read its cursor: %w", recall.ErrDamaged, err)
		}
	}
	if slices.ContainsFunc(known, func(f string) bool { return !slices.Contains(at.Secrets, f) }) {
		return errUnclean
	}
	for more := true; more; {
		next := at
		next.Few = maps.Clone(at.Few)
		var b recall.Batch
		err := s.opts.Ledger.View(ctx, func(v ledger.View) (err error) {
			b = recall.Batch{}
			more, err = s.next(v, agentID, &next, &b)
			return err
		})
		if err != nil {
			return err
		}
		s.few(agentID, kindFile, s.markdown(agentID), &next, &b)
		encoded, err := json.Marshal(next)
		if err != nil {
			return fmt.Errorf("encode the cursor of a memory index: %w", err)
		}
		if string(encoded) != data {
			b.Cursor, data = string(encoded), string(encoded)
			if err := ix.Put(ctx, b); err != nil {
				return err
			}
		}
		at = next
	}
	return nil
}

// next adds to a batch what a snapshot of the ledger has after a cursor, and moves that. More says whether there is
// more.
func (s *Service) next(v ledger.View, agentID string, at *cursor, b *recall.Batch) (more bool, err error) {
	briefs, numbers, err := v.BriefsAfter(agentID, at.Brief, pageSize)
	if err != nil {
		return false, err
	}
	for i, brief := range briefs {
		at.Brief = numbers[i]
		b.Put = append(b.Put, s.hidden(ofBrief(brief, at.Brief)))
	}
	oldest, err := v.OldestBrief(agentID)
	if err != nil {
		return false, err
	}
	if at.Oldest != oldest { // 0: there is none any more
		b.Oldest, at.Oldest = map[string]int64{kindBrief: cmp.Or(oldest, at.Brief+1)}, oldest
	}
	episodes, err := v.EpisodesAfter(agentID, at.Episode, pageSize)
	if err != nil {
		return false, err
	}
	for _, e := range episodes {
		at.Episode = e.Number
		b.Put = append(b.Put, s.hidden(ofEpisode(e)))
	}
	items, err := v.WorkAfter(agentID, at.Work, pageSize)
	if err != nil {
		return false, err
	}
	for _, w := range items {
		at.Work = w.Step
		report, _, err := v.DeliverySummary(w.ID)
		if err != nil {
			return false, err
		}
		plan, _, _ := s.opts.Files.Text(agentID, view.PlanFile(w.ID)) // one that can't be read is not searched
		b.Put = append(b.Put, s.hidden(ofWork(w, report.Text, plan)))
	}
	if err := s.plans(v, agentID, at, b); err != nil {
		return false, err
	}
	workspaces, err := attached(v, agentID)
	if err != nil {
		return false, err
	}
	s.few(agentID, kindWorkspace, workspaces, at, b)
	return len(briefs) == pageSize || len(episodes) == pageSize || len(items) >= pageSize, nil
}

// plans adds to a batch the open work items whose plans, which are files, are not what they were.
func (s *Service) plans(v ledger.View, agentID string, at *cursor, b *recall.Batch) error {
	open, err := v.OpenWork(agentID)
	if err != nil {
		return err
	}
	now := make(map[string]bool, len(open))
	for _, w := range open {
		plan, _, _ := s.opts.Files.Text(agentID, view.PlanFile(w.ID)) // one that can't be read is not searched
		key, digest := planKey+w.ID, ""
		if now[key] = plan != ""; now[key] {
			digest = digestOf(plan)
		}
		if at.Few[key] != digest {
			b.Put, at.Few[key] = append(b.Put, s.hidden(ofWork(w, "", plan))), digest
		}
	}
	maps.DeleteFunc(at.Few, func(key, _ string) bool { return strings.HasPrefix(key, planKey) && !now[key] })
	return nil
}

// digestOf is what a cursor keeps of a text.
func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// planKey begins the names of plans among a cursor's few.
const planKey = "plan "

// few adds to a batch those of all sources of a kind that are not what they were, and removes those that are gone.
func (s *Service) few(agentID, kind string, all []recall.Source, at *cursor, b *recall.Batch) {
	now := make(map[string]bool, len(all))
	for _, source := range all {
		source = s.hidden(source)
		key := kind + " " + source.ID
		now[key] = true
		if digest := source.Digest(); at.Few[key] != digest {
			b.Put, at.Few[key] = append(b.Put, source), digest
		}
	}
	for key := range at.Few {
		if id, ok := strings.CutPrefix(key, kind+" "); ok && !now[key] {
			b.Remove = append(b.Remove, recall.Key{Kind: kind, ID: id})
			delete(at.Few, key)
		}
	}
}

// markdown are the files of an agent's memory. One that is not plain text of a fair size is not searched.
func (s *Service) markdown(agentID string) (list []recall.Source) {
	for _, name := range view.MemoryFiles() {
		text, changed, err := s.opts.Files.Text(agentID, name)
		if err == nil {
			list = append(list, recall.Source{Kind: kindFile, ID: name, Path: name, Title: name, UpdatedAt: changed,
				Body: text})
		}
	}
	return list
}

// attached are the workspaces in which an agent may work.
func attached(v ledger.View, agentID string) (list []recall.Source, err error) {
	stored, err := v.AgentState(agentID)
	for _, a := range stored.Workspaces {
		w, err := v.Workspace(a.WorkspaceID)
		if err != nil {
			return nil, err
		}
		list = append(list, recall.Source{Kind: kindWorkspace, ID: w.ID, WorkspaceID: w.ID, Title: w.Alias,
			UpdatedAt: w.UpdatedAt, Metadata: map[string]string{"workspace_kind": string(w.Kind)},
			Body: lines("alias", w.Alias, "repository", w.RepoName, "directory", w.Anchor, "kind", string(w.Kind))})
	}
	return list, err
}

func ofBrief(b ledger.Brief, number int64) recall.Source {
	return recall.Source{Kind: kindBrief, ID: b.ID, Position: number, WorkspaceID: scope(b.WorkspaceID),
		Title: title(b.Text), UpdatedAt: b.CreatedAt, Body: b.Text, Metadata: metadata("brief_id", b.ID,
			"brief_kind", string(b.Kind), "work_item_id", b.WorkItemID, "turn_id", b.TurnID, "task_id", b.TaskID)}
}

func ofEpisode(e ledger.Episode) recall.Source {
	at := e.CreatedAt
	if e.FinalizedAt != nil {
		at = *e.FinalizedAt
	}
	return recall.Source{Kind: kindEpisode, ID: e.ID, WorkspaceID: scope(e.WorkspaceID),
		Title: title(cmp.Or(e.Objective, e.WorkSummary, e.Summary)), UpdatedAt: at,
		Metadata: metadata("episode_id", e.ID, "boundary_reason", string(e.Boundary), "work_item_id", e.WorkItemID,
			"turns", fmt.Sprintf("%d-%d", e.StartTurn, e.EndTurn)),
		Body: lines("objective", e.Objective, "summary", e.Summary, "work", e.WorkSummary, "scope", list(e.ScopeHints),
			"files", list(e.WorkingSetFiles), "commands", list(e.Commands), "verification", list(e.Verification),
			"decisions", list(e.Decisions), "carry forward", list(e.CarryForward), "waiting on", list(e.WaitingOn))}
}

func ofWork(w ledger.WorkItem, report, plan string) recall.Source {
	var todo []string
	for _, t := range w.Todo {
		todo = append(todo, string(t.State)+": "+t.Text)
	}
	return recall.Source{Kind: kindWork, ID: w.ID, WorkspaceID: scope(w.WorkspaceID), Title: title(w.Objective),
		UpdatedAt: w.UpdatedAt, Metadata: metadata("work_item_id", w.ID, "state", string(w.State)),
		Body: lines("objective", w.Objective, "state", string(w.State), "plan status", string(w.PlanStatus),
			"blocked by", w.BlockedBy, "todo", list(todo), "report", cmp.Or(report, w.ResultSummary), "plan", plan)}
}

// scope is the workspace that a source belongs to. What an agent did at home is its own wherever it works.
func scope(workspaceID string) string {
	if workspaceID == ledger.HomeWorkspace {
		return ""
	}
	return workspaceID
}

// hidden is a source without known secrets.
func (s *Service) hidden(source recall.Source) recall.Source {
	source.Title, source.Body = s.opts.Secrets.Text(source.Title), s.opts.Secrets.Text(source.Body)
	return source
}

func title(text string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return visible.OneLine(first, maxTitle)
}

// lines are names and values, without those that have no value.
func lines(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", pairs[i], pairs[i+1])
		}
	}
	return b.String()
}

func list(items []string) string {
	if len(items) == 0 {
		return ""
	}
	return "\n- " + strings.Join(items, "\n- ")
}

// metadata are names and values, without those that have no value.
func metadata(pairs ...string) map[string]string {
	m := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			m[pairs[i]] = pairs[i+1]
		}
	}
	return m
}
