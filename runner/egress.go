package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"holon/responses/turns"
	"holon/runner/egress"
	"holon/runner/engine"
	"holon/state"
)

// EgressFile is the host's own record of what a container was let out to, in the
// run's own directory (docs/guides/egress.md).
const EgressFile = "egress.ndjson"

// EgressWatcher is a Watcher that is also told of the container's connections,
// one fact at a time, beside the calls of its other methods.
type EgressWatcher interface {
	Egress(egress.Fact)
}

// openEgress serves the proxy of the container, if it is to have one. Beside
// another network, or where nothing is confined, a list of hosts would promise
// what nobody keeps.
func (s *Session) openEgress(ctx context.Context) (err error) {
	if s.cfg.Egress == nil {
		return nil
	}
	if !ownFiles(s.cfg.Engine) || s.cfg.Network != "" && s.cfg.Network != engine.NetworkNone {
		return &Error{Code: CodeUsage, Param: "--allow-host",
			Message: "the container could reach every host without it",
			Hint:    "use it with docker and --network none, or leave it out"}
	}
	record := s.cfg.EgressRecord
	if record == "" {
		record = filepath.Join(s.cfg.Dir, EgressFile)
	}
	s.egress, err = s.cfg.Egress.Serve(ctx, s.hostSocket(egressSocket), record, s.cfg.OnEgress)
	return err
}

// closeEgress cuts what is still connected and completes the record of it.
func (s *Session) closeEgress() error {
	if s.egress == nil {
		return nil
	}
	return s.egress.Close()
}

// planEgress says in the run's record what is open, before anything can be
// reached, and where the facts of it go.
func (r *oneShot) planEgress() {
	p := r.Session.Egress
	if p == nil {
		return
	}
	r.manifest.Egress = &state.Egress{AllowHosts: p.Allowed()}
	r.Session.EgressRecord = filepath.Join(r.run.Dir(), EgressFile)
	if w, ok := r.Watch.(EgressWatcher); ok {
		r.Session.OnEgress = w.Egress
	}
}

// resumeEgress opens to a run that is taken up what was open to it before. A list
// that cannot be read any more opens nothing.
func (r *oneShot) resumeEgress() {
	e := r.manifest.Egress
	if e == nil {
		return
	}
	p, err := egress.New(egress.Options{Allow: e.AllowHosts, Log: r.Session.Log})
	if err != nil {
		r.manifest.Warnings = append(r.manifest.Warnings,
			"the run goes on without the network: "+OneLine(err.Error(), 300))
		return
	}
	r.Session.Egress = p
	r.planEgress()
}

// collectEgress puts the facts of the host beside those of the turn, and what a
// person wants to know of them into the run's record.
func (r *oneShot) collectEgress() {
	if r.Session.EgressRecord == "" {
		return
	}
	var facts []egress.Fact
	err := r.session.closeEgress() // the container is gone, and so are its connections
	if err == nil {
		facts, err = egress.ReadFacts(r.Session.EgressRecord)
	}
	if err == nil {
		scope := turns.Scope{RuntimeID: r.Session.ID, SessionID: r.turn.SessionID, TurnID: r.turn.TurnID}
		err = appendFacts(r.run.OutputDir(), facts, scope)
	}
	if err != nil {
		r.manifest.Warnings = append(r.manifest.Warnings,
			"the network connections of the turn are not in "+turns.RuntimeFile+": "+OneLine(err.Error(), 300))
	}
	r.manifest.Egress.Allowed, r.manifest.Egress.Denied = egress.Count(facts)
	r.denied = deniedHosts(facts)
}

// appendFacts adds facts to the runtime.ndjson in dir, whose sequence goes on.
// The file comes from the container: lines in it that claim to be such facts are
// taken out, since only the host can know them.
func appendFacts(dir string, facts []egress.Fact, scope turns.Scope) error {
	if _, err := os.Lstat(filepath.Join(dir, turns.RuntimeFile)); errors.Is(err, fs.ErrNotExist) && len(facts) == 0 {
		return nil
	}
	file, err := openFacts(dir)
	if err != nil {
		return err
	}
	for _, f := range facts {
		file.add(f.Event(scope))
	}
	return file.close()
}

// deniedHosts lists what was denied, once each, in the order of the first time.
func deniedHosts(facts []egress.Fact) (list []string) {
	seen := make(map[string]bool)
	for _, f := range facts {
		if d := f.Decision; d != nil && d.Verdict == turns.VerdictDenied {
			if what := DescribeDenial(*d); !seen[what] {
				seen[what] = true
				list = append(list, what)
			}
		}
	}
	return list
}

// DescribeDenial says in a few printable words what was denied, and why.
func DescribeDenial(d turns.EgressDecision) string {
	host := OneLine(d.Host, 100)
	if host == "" {
		host = "a request"
	}
	if d.Address != "" && d.Address != d.Host {
		host += " at " + OneLine(d.Address, 50)
	}
	return fmt.Sprintf("%s (%s)", host, OneLine(d.Reason, 40))
}

// summarizeEgress is the part of the summary about the network.
func (r *oneShot) summarizeEgress(b *bytes.Buffer) {
	e := r.manifest.Egress
	if e == nil {
		return
	}
	fmt.Fprintf(b, "\n## Network\n\nOpen: %s. %d connections were allowed, %d denied.\n",
		proseSpan(strings.Join(e.AllowHosts, ", ")), e.Allowed, e.Denied)
	const most = 10
	for i, what := range r.denied {
		if i == most {
			fmt.Fprintf(b, "- … and %d more\n", len(r.denied)-most)
			break
		}
		fmt.Fprintf(b, "- denied: %s\n", proseSpan(what))
	}
}
