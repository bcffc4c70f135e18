package conversation

import (
	"errors"

	"holon/responses"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/gateway"
	"holon/runner/pool"
	"holon/runner/workspace/git"
	"holon/state"
)

// publicTypes are the codes that a client can do something about, whose messages name nothing of the host but what the
// client named.
var publicTypes = map[state.Code]responses.ErrorType{
	CodeNotFound:                   responses.TypeNotFound,
	responses.CodeNotFound:         responses.TypeNotFound,
	responses.CodeTurnNotFound:     responses.TypeNotFound,
	responses.CodeItemNotFound:     responses.TypeNotFound,
	CodeLimit:                      responses.TypeTooManyRequests,
	CodeClosed:                     responses.TypeInvalidRequest,
	CodeConflict:                   responses.TypeInvalidRequest,
	CodeNotAllowed:                 responses.TypeInvalidRequest,
	CodeNothing:                    responses.TypeInvalidRequest,
	responses.CodeInvalidValue:     responses.TypeInvalidRequest,
	responses.CodeForbidden:        responses.TypeInvalidRequest,
	responses.CodeTurnConflict:     responses.TypeInvalidRequest,
	responses.CodeModelNotFound:    responses.TypeInvalidRequest,
	engine.CodeImageNotFound:       responses.TypeInvalidRequest,
	gateway.CodeNoPrice:            responses.TypeServerError,
	gateway.CodeMissingCredentials: responses.TypeServerError,
	runner.CodeDiskFull:            responses.TypeServerError,
	git.CodeBareRepository:         responses.TypeInvalidRequest,
	git.CodeBrokenRepository:       responses.TypeInvalidRequest,
	git.CodeTooLarge:               responses.TypeInvalidRequest,
}

// Public is an error of this package or of the pool as a client of the protocol reads it: a *responses.Error, which has
// RetryAfter where that helps. What is the host's own stays its cause.
func Public(err error) error {
	if limited, ok := errors.AsType[*Limited](err); ok {
		return &Limited{err: Public(limited.err), after: limited.after}
	}
	if _, ok := errors.AsType[*responses.Error](err); ok || err == nil {
		return err
	}
	f := runner.Describe(err)
	e := &responses.Error{Type: publicTypes[state.Code(f.Code)], Code: f.Code, Message: f.Message, Param: f.Param,
		Hint: f.Hint, Cause: err}
	switch {
	case state.Code(f.Code) == pool.CodeClosed:
		return &responses.Error{Type: responses.TypeServerError, Code: responses.CodeDraining, Cause: err,
			Message: "the server ends", Hint: "try again"}
	case e.Type == "":
		return responses.Internal("the session could not do it; the log of the host has the details", err)
	case e.Code == string(engine.CodeImageNotFound):
		e.Param = fieldImage
	}
	return e
}
