package agentd

import (
	"context"

	"holon/agentd/turn"
	"holon/responses"
)

// Once runs one turn and returns its final response in any terminal status. When
// ctx ends first, the turn is ended in good order and its response, which then
// is incomplete, is returned all the same.
func (s *Server) Once(ctx context.Context, req *responses.Request) (*responses.Response, error) {
	v, err := s.accept(req, origin{source: sourceRun}, nil)
	if err != nil {
		return nil, s.logged(err)
	}
	defer v.release()
	select {
	case <-v.done:
	case <-ctx.Done():
		v.stop(turn.ErrShutdown)
		<-v.done
	}
	resp, failure := v.result()
	if failure != nil {
		return nil, failure
	}
	return resp, nil
}
