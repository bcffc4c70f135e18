package scheduler

import (
	"encoding/json"
	"slices"
	"strings"

	"holon/responses/turns"
	"holon/state/ledger"
)

// States of an ActiveSkill (runtime specification, "Skill Discovery And Activation Contract").
const (
	turnActive    = "turn_active"
	sessionActive = "session_active"
	restored      = "restored"
)

// Bounds of what is kept of an agent.
const (
	maxToolTotals = 100
	maxSkills     = 32
	maxSkill      = 4 << 10 // bytes of the event
)

// tally adds a fact of a turn to what the ledger keeps of all of them.
func (s *step) tally(a *ledger.Attempt, e ledger.Event) {
	var f struct {
		Tool            string   `json:"tool_name"`
		DurationMS      int64    `json:"duration_ms"`
		SummarizedItems int64    `json:"summarized_items"`
		Skills          []string `json:"skills"`
		Active          []string `json:"active_skills"`
		Attempt         struct {
			ContextBuildMS int64 `json:"context_build_ms"`
		} `json:"provider_attempt"`
	}
	switch e.Class {
	case turns.ModelCompleted, turns.ModelFailed, turns.ToolResult, turns.ToolFailed, turns.ContextCompacted,
		turns.ContextResolved:
		_ = json.Unmarshal(e.Data, &f) // what is wrong with it is not counted
	case turns.SkillActivated:
		s.useSkill(e)
		return
	default:
		return
	}
	took := max(0, f.DurationMS)
	switch e.Class {
	case turns.ModelCompleted, turns.ModelFailed:
		a.Timing.ProviderMS += took
		a.Timing.ContextBuildMS += max(0, f.Attempt.ContextBuildMS)
	case turns.ToolResult, turns.ToolFailed:
		a.Timing.ToolMS += took
		s.countTool(clip(f.Tool), took)
	case turns.ContextCompacted:
		a.Compacted = a.Compacted || f.SummarizedItems > 0 // else results of tools alone were shortened
		s.state.Totals.Compactions++
	case turns.ContextResolved:
		s.state.Skills.Available = f.Skills[:min(len(f.Skills), maxSkills)]
		s.restoreSkills(f.Active)
	}
}

func (s *step) countTool(name string, took int64) {
	all := &s.state.Totals.Tools
	at := slices.IndexFunc(*all, func(t ledger.ToolTotal) bool { return t.Tool == name })
	if at < 0 {
		if name == "" || len(*all) == maxToolTotals {
			return
		}
		at, *all = len(*all), append(*all, ledger.ToolTotal{Tool: name})
	}
	(*all)[at].Calls++
	(*all)[at].DurationMS += took
}

// useSkill notes that the turn of an event uses a skill. One that the conversation has in use stays so.
func (s *step) useSkill(e ledger.Event) {
	used := ledger.ActiveSkill{Turn: e.TurnID}
	if len(e.Data) > maxSkill || json.Unmarshal(e.Data, &used.Skill) != nil || used.SkillID == "" {
		return
	}
	used.ActivationState = turnActive
	active := s.state.Skills.Active
	if at := slices.IndexFunc(active, func(k ledger.ActiveSkill) bool { return k.SkillID == used.SkillID }); at >= 0 {
		if active[at].ActivationState != turnActive {
			used.ActivationState = sessionActive
		}
		active = slices.Delete(active, at, at+1)
	}
	active = append(active, used)
	s.state.Skills.Active = active[max(0, len(active)-maxSkills):]
}

// restoreSkills takes the states of skills with which agentd begins a turn: id and state.
func (s *step) restoreSkills(known []string) {
	for _, k := range known {
		id, is, _ := strings.Cut(k, " ")
		for i := range s.state.Skills.Active {
			if a := &s.state.Skills.Active[i]; a.SkillID == id && (is == restored || is == sessionActive) {
				a.ActivationState = is
			}
		}
	}
}

// keepSkills makes the skills that a completed turn used part of the conversation. Another turn leaves it as it was.
func (s *step) keepSkills(t ledger.Turn) {
	s.state.Skills.Active = slices.DeleteFunc(s.state.Skills.Active, func(k ledger.ActiveSkill) bool {
		return k.ActivationState == turnActive && t.Kind != ledger.TurnCompleted
	})
	for i := range s.state.Skills.Active {
		if k := &s.state.Skills.Active[i]; k.ActivationState == turnActive {
			k.ActivationState = sessionActive
		}
	}
}
