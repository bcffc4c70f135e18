package oneshot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"holon/internal/durable"
	"holon/internal/redact"
	"holon/internal/visible"

	"holon/state"
)

// hideSecrets takes known secrets out of what a manifest says in words. Paths and
// ids stay: they are how the run is found again.
func hideSecrets(known *redact.Set, m *state.Manifest) {
	if known.Empty() {
		return
	}
	m.Task = known.Text(m.Task)
	m.Warnings = hideAll(known, m.Warnings)
	for i := range m.Notes {
		m.Notes[i].Text = known.Text(m.Notes[i].Text)
	}
	m.Error = hideFailure(known, m.Error)
	if c := m.Checked; c != nil {
		c.Output, c.Error = known.Text(c.Output), hideFailure(known, c.Error)
	}
	if m.Provider != nil {
		for _, a := range m.Provider.Attempts {
			if d := a.TransportDiagnostics; d != nil {
				d.SourceChain = hideAll(known, d.SourceChain)
			}
		}
	}
	for i := range m.Attempts { // their checks are from manifests
		m.Attempts[i].Error = hideFailure(known, m.Attempts[i].Error)
	}
	if m.Judge != nil {
		m.Judge.Error = hideFailure(known, m.Judge.Error)
	}
}

func hideAll(known *redact.Set, texts []string) []string {
	hidden := make([]string, len(texts))
	for i, text := range texts {
		hidden[i] = known.Text(text)
	}
	return hidden
}

func hideFailure(known *redact.Set, f *state.Failure) *state.Failure {
	if f == nil {
		return nil
	}
	hidden := *f
	hidden.Message, hidden.Hint = known.Text(hidden.Message), known.Text(hidden.Hint)
	return &hidden
}

// writeManifest writes the manifest without known secrets.
func (r *execution) writeManifest() error {
	hideSecrets(r.config.Secrets, r.manifest)
	return r.run.WriteManifest(r.manifest)
}

// warnOfSecrets says which known secrets are in the patch. It is the user's work
// and stays as the agent made it: a patch with something taken out would not be
// what was tested, and would not apply.
func (r *execution) warnOfSecrets(patch string) {
	if r.config.Secrets.Empty() {
		return
	}
	names, err := r.secretsIn(patch)
	if err != nil {
		r.manifest.Warnings = append(r.manifest.Warnings,
			"the patch could not be searched for secrets: "+visible.OneLine(err.Error(), 300))
	}
	if len(names) > 0 {
		r.manifest.Warnings = append(r.manifest.Warnings,
			visible.OneLine("the patch contains the value of "+strings.Join(names, ", ")+
				"; it was not changed, so look at "+
				DiffFile+" before you apply or share it", 500))
	}
}

// secretsIn returns the names of the known secrets in a patch, which the host wrote.
func (r *execution) secretsIn(patch string) ([]string, error) {
	f, err := durable.Open(patch)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return r.config.Secrets.Names(f)
}

// patchPath is where the run's patch is.
func (r *execution) patchPath() string { return filepath.Join(r.run.OutputDir(), DiffFile) }
