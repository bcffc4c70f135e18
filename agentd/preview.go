package agentd

import (
	"cmp"
	"net/http"

	"holon/agentd/model"
	"holon/responses/turns"
)

// previewRequest is POST /responses/preview: what the model would be asked first if the same body were sent to POST
// /responses. It asks no model and records nothing.
func (s *Server) previewRequest(w http.ResponseWriter, r *http.Request) {
	p, err := s.planned(w, r, true)
	if err != nil {
		s.fail(w, err)
		return
	}
	defer p.offer.Release()
	warning, err := s.foresee(p)
	if err != nil {
		s.fail(w, err)
		return
	}
	shown := s.preview(p)
	if warning != "" {
		shown.Notes = append(shown.Notes, warning)
	}
	names := make([]string, len(shown.Tools))
	for i, t := range shown.Tools {
		names[i] = t.Name
	}
	s.writeJSON(w, http.StatusOK, shown, append(names, turns.NamesOfTools(nil, shown.Input)...)...)
}

// preview describes the first request of a planned turn.
func (s *Server) preview(p *plan) turns.Preview {
	first := s.firstRequest(p)
	shown := turns.Preview{
		Object: turns.ObjectPreview, Model: p.Ref, ModelFallbacks: append([]string{}, p.Fallbacks...),
		SessionID: p.sessionID, PreviousResponseID: p.req.PreviousResponseID,
		Reasoning: first.Reasoning, MaxOutputTokens: first.MaxOutputTokens,
		ContextWindow: s.cfg.Models.Window(p.Ref).Context, InputTokens: model.Estimate(first),
		WorkDir: p.workDir, InputDir: p.inputDir, Isolation: p.req.Holon.Isolation,
		Skills: append([]string{}, p.skills.Names()...), Sources: []turns.PreviewSource{},
		Instructions: first.Instructions, Input: first.Input, Tools: []turns.PreviewTool{},
		Notes: append([]string{}, p.prompt.Notes()...),
	}
	for _, problem := range p.skills.Problems {
		shown.Notes = append(shown.Notes, problem.Error()+"; "+problem.Hint)
	}
	if p.takes.CacheKey {
		shown.PromptCacheKey = first.PromptCacheKey
	} else {
		shown.Notes = append(shown.Notes, "no cache key is sent: the provider's protocol has none")
	}
	for _, src := range p.prompt.Sources {
		if src.Text != "" {
			shown.Sources = append(shown.Sources, turns.PreviewSource{Name: src.Name, Kind: src.Kind, Path: src.Path,
				Bytes: src.Bytes, Digest: src.Digest})
		}
	}
	for i, t := range first.Tools {
		server := cmp.Or(p.offer.Server(t.Name), "container")
		if i >= len(first.Tools)-len(p.req.Tools) {
			server = "client"
		}
		shown.Tools = append(shown.Tools, turns.PreviewTool{Name: t.Name, Server: server, Description: t.Description,
			Parameters: t.Parameters})
	}
	for _, note := range p.offer.Notes {
		shown.Notes = append(shown.Notes, note.Message)
	}
	return shown
}
