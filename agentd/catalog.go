package agentd

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"holon/agentd/tools"
	"holon/responses"
	"holon/responses/turns"
)

// catalog is what the turn offers to its model. A catalog that the thread had in the turn before is not listed again.
func (s *Server) catalog(j *job) turns.Catalog {
	c := catalogOf(j.toolset.Definitions(), j.req)
	if s.catalogs.of(j.scope.ThreadID) == c.Revision {
		c.Tools, c.InventoryRef = nil, c.Revision
	}
	s.catalogs.keep(j.scope.ThreadID, c.Revision)
	return c
}

func catalogOf(own []tools.Definition, req *responses.Request) turns.Catalog {
	sum := sha256.New()
	var c turns.Catalog
	taken := make(map[string]bool, len(req.Tools))
	add := func(name, host, description string, parameters []byte, owner string, traits turns.Traits) {
		offered := turns.Offered{ToolName: name, Host: host, Policy: turns.DecisionAllow, Owner: owner, Traits: traits}
		if !req.ToolChoice.Allows(name) {
			offered.Policy = turns.DecisionDeny
		}
		fmt.Fprintf(sum, "%q %q\n", description, parameters)
		_ = json.NewEncoder(sum).Encode(offered) // texts and booleans, for which encoding cannot fail
		c.Tools = append(c.Tools, offered)
	}
	for _, t := range req.Tools {
		taken[t.Name] = true
		add(t.Name, turns.HostClient, value(t.Description), t.Parameters, turns.OwnerClient, turns.Traits{})
	}
	for _, d := range own {
		if !taken[d.Name] {
			add(d.Name, "server", d.Description, d.Parameters, cmp.Or(d.Owner, turns.OwnerAgentd), d.Traits)
		}
	}
	c.Count, c.Revision = len(c.Tools), "sha256:"+hex.EncodeToString(sum.Sum(nil))
	return c
}
