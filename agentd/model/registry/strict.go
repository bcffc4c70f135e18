package registry

import (
	"context"
	"iter"

	"holon/agentd/model"
)

// strict offers the container's tools in the form for providers that enforce
// schemas (runtime specification, "Provider Tool Schema Contract"). Tools without
// such a form, and those of clients, are unchanged.
type strict struct{ model.Transport }

// Stream implements model.Transport.
func (s strict) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	tools := make([]model.Tool, len(req.Tools))
	for i, t := range req.Tools {
		if t.StrictForm != nil {
			t.Parameters, t.Strict = t.StrictForm, new(true)
		}
		tools[i] = t
	}
	req.Tools = tools
	return s.Transport.Stream(ctx, req)
}

// Capabilities implements model.Capable.
func (s strict) Capabilities(name string) model.Capabilities {
	c := model.CapabilitiesOf(s.Transport, name)
	c.StrictTools = true
	return c
}

// Check implements model.Checker.
func (s strict) Check(name string) error {
	if c, ok := s.Transport.(model.Checker); ok {
		return c.Check(name)
	}
	return nil
}

// Close drops idle connections.
func (s strict) Close() error {
	if c, ok := s.Transport.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}
