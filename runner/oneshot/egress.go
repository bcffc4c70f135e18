package oneshot

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/egress"
	"holon/state"
)

// egressWatcher is a Watcher that is also told of the container's connections,
// one fact at a time, concurrently with its other methods.
type egressWatcher interface {
	Egress(egress.Fact)
}

// planEgress says in the run's record what is open, before anything can be
// reached, and where the facts of it go.
func (r *execution) planEgress() {
	p := r.config.Egress
	if p == nil {
		return
	}
	r.manifest.Egress = &state.Egress{AllowHosts: p.Allowed(), PrivateHosts: p.Private()}
	if w, ok := r.spec.Watch.(egressWatcher); ok {
		r.config.OnEgress = w.Egress
	}
}

// resumeEgress opens to a run that is taken up what was open to it before. A list
// that cannot be read any more opens nothing.
func (r *execution) resumeEgress() {
	e := r.manifest.Egress
	if e == nil {
		return
	}
	p, err := egress.New(egress.Options{Allow: e.AllowHosts, Private: e.PrivateHosts, Log: r.config.Log})
	if err != nil {
		r.manifest.Warnings = append(r.manifest.Warnings,
			"the run goes on without the network: "+visible.OneLine(err.Error(), 300))
		return
	}
	r.config.Egress = p
	r.planEgress()
}

// egressFacts are the facts of the host about the turn, of which a summary goes to the run's manifest.
func (r *execution) egressFacts() []turns.RuntimeEvent {
	if r.config.Egress == nil {
		return nil
	}
	var facts []egress.Fact
	err := r.session.CloseEgress() // the container is gone, and so are its connections
	if err == nil {
		facts, err = egress.ReadFacts(filepath.Join(r.run.Dir(), runner.EgressFile))
	}
	if err != nil {
		r.manifest.Warnings = append(r.manifest.Warnings,
			"the network connections of the turn are not in "+turns.RuntimeFile+": "+visible.OneLine(err.Error(), 300))
	}
	events := make([]turns.RuntimeEvent, len(facts))
	for i, f := range facts {
		events[i] = f.Event(r.scope())
	}
	r.manifest.Egress.Allowed, r.manifest.Egress.Denied = egress.Count(facts)
	r.denied = deniedHosts(facts)
	return events
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
	host := visible.OneLine(d.Host, 100)
	if host == "" {
		host = "a request"
	}
	if d.Address != "" && d.Address != d.Host {
		host += " at " + visible.OneLine(d.Address, 50)
	}
	return fmt.Sprintf("%s (%s)", host, visible.OneLine(d.Reason, 40))
}

// summarizeEgress is the part of the summary about the network.
func (r *execution) summarizeEgress(b *bytes.Buffer) {
	e := r.manifest.Egress
	if e == nil {
		return
	}
	fmt.Fprintf(b, "\n## Network\n\nOpen: %s. %d connections were allowed, %d denied.\n",
		proseSpan(strings.Join(slices.Concat(e.AllowHosts, e.PrivateHosts), ", ")), e.Allowed, e.Denied)
	const most = 10
	for i, what := range r.denied {
		if i == most {
			fmt.Fprintf(b, "- … and %d more\n", len(r.denied)-most)
			break
		}
		fmt.Fprintf(b, "- denied: %s\n", proseSpan(what))
	}
}
