package runner

import (
	"context"
	"path/filepath"
)

// EgressFile is the host's own record of what a container was let out to, in the
// run's own directory (docs/guides/egress.md).
const EgressFile = "egress.ndjson"

// openEgress serves the proxy of the container, if it is to have one.
func (s *Session) openEgress(ctx context.Context) (err error) {
	if s.cfg.Egress == nil {
		return nil
	}
	record := s.cfg.EgressRecord
	if record == "" {
		record = filepath.Join(s.cfg.Dir, EgressFile)
	}
	s.egress, err = s.cfg.Egress.Serve(ctx, s.seam.service(egressSocket), record, s.cfg.OnEgress)
	return err
}

// CloseEgress cuts what is still connected and completes the record of it.
func (s *Session) CloseEgress() error {
	if s.egress == nil {
		return nil
	}
	return s.egress.Close()
}
