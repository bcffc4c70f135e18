package hosttools_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/runner/hosttools"
	"holon/test/expect"
)

// A call is made with the token of a running turn, for that turn, and not otherwise.
func TestGrant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	expect.NoError(t, r.server.Close())
	r.options.Tools = []hosttools.Tool{echo()}
	r.serve()
	const other = "hmt_other"
	revoke := r.server.Grant("turn_2", sha256.Sum256([]byte(other)))
	s := r.dial()
	call := func(tool string, meta mcp.Meta) error {
		p := &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(`{"text":"x"}`), Meta: meta}
		_, err := s.CallTool(t.Context(), p)
		return err
	}
	for name, c := range map[string]struct {
		token any
		id    any
		made  bool
	}{
		"its token":            {token, "turn_1/c1", true},
		"the other's":          {other, "turn_2/c1", true},
		"no token":             {nil, "turn_1/c2", false},
		"an empty one":         {"", "turn_1/c2", false},
		"a number":             {7, "turn_1/c2", false},
		"a wrong one":          {token + "x", "turn_1/c2", false},
		"its hash":             {fmt.Sprintf("%x", sha256.Sum256([]byte(token))), "turn_1/c2", false},
		"another turn's":       {other, "turn_1/c2", false},
		"for another turn":     {token, "turn_2/c2", false},
		"for one like it":      {token, "turn_11/c2", false},
		"for no turn that is":  {token, "c2", false},
		"its token once again": {token, "turn_1/c3", true},
	} {
		for _, tool := range []string{"Echo", "turn_note"} {
			err := call(tool, mcp.Meta{"holon/turn_token": c.token, "holon/call_id": c.id})
			if wire, ok := errors.AsType[*jsonrpc.Error](err); c.made && err != nil ||
				!c.made && (!ok || wire.Code != jsonrpc.CodeInvalidRequest) {
				t.Errorf("%s, %s: %v", name, tool, err)
			}
		}
	}
	before := len(r.server.Notes())
	revoke()
	revoke()
	if err := call("turn_note", mcp.Meta{"holon/turn_token": other,
		"holon/call_id": "turn_2/c9"}); err == nil {
		t.Error("a turn that is over calls")
	}
	if after := len(r.server.Notes()); before != 3 || after != before {
		t.Errorf("%d notes, then %d", before, after)
	}
}
