package openapi

import "holon/responses"

func errorTypes() *Schema {
	return Words(responses.TypeInvalidRequest, responses.TypeNotFound, responses.TypeTooManyRequests,
		responses.TypeModelError, responses.TypeServerError)
}

// codes are what an error of this project says precisely went wrong.
var codes = []any{
	responses.CodeInvalidJSON, responses.CodeInvalidValue, responses.CodeMissingParameter,
	responses.CodeUnsupportedParameter, responses.CodeUnsupportedMediaType,
	responses.CodeRequestTooLarge, responses.CodeModelNotFound, responses.CodeMissingCredentials,
	responses.CodePathOutsideRoot, responses.CodePreviousNotFound,
	responses.CodeCallNotFound, responses.CodeItemNotFound, responses.CodeTurnConflict, responses.CodeTurnNotFound,
	responses.CodeTurnEnded, responses.CodeInputConflict, responses.CodeIdempotencyConflict,
	responses.CodeResponseInProgress, responses.CodeRequestTimeout, responses.CodeNotFound,
	responses.CodeMethodNotAllowed, responses.CodeUnauthorized,
	responses.CodeForbidden, responses.CodeQueueFull, responses.CodeDraining, responses.CodeDiskFull,
	responses.CodeInterrupted, responses.CodeCancelled,
	responses.CodeDeadline, responses.CodeServerError, responses.CodeModelError, responses.CodeContextLength,
	responses.CodeCompactionUnreadable,
	responses.CodeConnectionLimit, responses.CodeRateLimit, responses.CodeToolChoiceUnmet, responses.CodeToolNotAllowed,
	responses.CodeStructuredOutput,
	responses.CodeScenarioInvalid, responses.CodeScenarioDiverged, responses.CodeScenarioNotFound,
	responses.CodeProviderUnavailable, responses.CodeProviderAuthentication,
	responses.CodeTurnTokenRequired, responses.CodeTurnTokenExpired, responses.CodeModelNotAllowed,
	responses.CodeBudgetExceeded,
}

// errors describes the envelope of errors and its form on a WebSocket.
func (s *Set) errors() {
	code := Text().Says("What went wrong, for programs. There may be others.")
	code.Examples = codes
	s.define("ErrorPayload", Object(
		Key("message", Text().Says("For people; with the hint.")),
		Key("type", errorTypes()),
		Key("param", Text().Says("The key, parameter or header that is wrong; empty when there is none.")),
		Key("code", code),
	).With(Key("hint", Text().Says("What to do about it."))))
	s.define("ErrorEnvelope", Object(Key("error", Ref("ErrorPayload"))))
	s.define("WebSocketErrorEvent", Object(Key("type", Exactly(responses.EventError)),
		Key("status", Integer().Between(400, 599).Says("The HTTP status that the error would have.")),
		Key("error", Ref("ErrorPayload"))).
		Says("A refusal on a WebSocket. The connection stays usable."))
}
