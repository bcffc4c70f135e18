package hosttools

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"

	"holon/internal/mcpwire"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tokenHash is what is kept of a turn's token: its SHA-256.
type tokenHash = [sha256.Size]byte

// grants are the turns that may call tools.
type grants struct {
	begun chan struct{} // closed when there was one

	mu    sync.Mutex
	turns map[tokenHash]string // ids
}

func newGrants() *grants {
	return &grants{begun: make(chan struct{}), turns: make(map[tokenHash]string)}
}

// Grant lets a turn call tools until revoke, which may be called more than once.
// Without one a server makes no call.
func (s *Server) Grant(turnID string, token tokenHash) (revoke func()) {
	g := s.grants
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns[token] = turnID
	select {
	case <-g.begun:
	default:
		close(g.begun)
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.turns, token)
	}
}

// turnOf returns the id of the turn that has the token, "" for none. Before the
// first grant it waits for that one: a turn that another process began repeats a
// call as soon as the socket is served again. The hash is looked up, so how long
// that takes tells nothing of a token.
func (g *grants) turnOf(ctx context.Context, token string) string {
	select {
	case <-g.begun:
	case <-ctx.Done():
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.turns[sha256.Sum256([]byte(token))]
}

// turnsOnly makes the calls of turns, each for its own turn, and refuses all other.
func (s *Server) turnsOnly(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		call, ok := req.(*mcp.CallToolRequest)
		if !ok {
			return next(ctx, method, req)
		}
		waiting, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		token, _ := call.Params.Meta[mcpwire.MetaTurnToken].(string)
		id, _ := call.Params.Meta[mcpwire.MetaCallID].(string)
		if turn := s.grants.turnOf(waiting, token); turn == "" || id != "" && !strings.HasPrefix(id, turn+"/") {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
				Message: "the call has no token of a turn that runs"}
		}
		return next(ctx, method, req)
	}
}
