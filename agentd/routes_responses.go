package agentd

import (
	"net/http"
	"reflect"

	"holon/responses"
	"holon/responses/openapi"
	"holon/responses/turns"
)

// responseRoutes are Open Responses, and what OpenAI's API has beside it.
func (s *Server) responseRoutes() []route {
	response := reflect.TypeFor[responses.Response]()
	token := openapi.Parameter{Name: responses.HeaderModelToken, In: "header", Schema: openapi.Chars(1, maxModelToken),
		Description: "The token with which the turn asks its models through the host's gateway and calls the host's " +
			"tools, of printable ASCII characters, once. It is kept nowhere, and belongs to no request without such a host."}
	return []route{
		{http.MethodPost, "/responses", s.createResponse, about{
			id: "createResponse", tag: tagResponses, summary: "Run a turn",
			text: "With stream the answer is its events, else the response when it is over; with background the " +
				"response as it is. " +
				"A turn that fails before its stream begins, and every one that fails without a stream, answers " +
				"with an error.",
			params: []openapi.Parameter{
				{Name: headerIdempotencyKey, In: "header",
					Description: "Requests with the same key are one turn. Not together with holon.turn_id.",
					Schema:      openapi.Chars(1, maxIdempotencyKey)},
				{Name: "Accept", In: "header", Description: "application/x-ndjson makes a stream NDJSON; nothing " +
					"else has an effect.", Schema: openapi.Text()},
				token,
			},
			takes: "CreateResponseBody", gives: response, events: "StreamingEvent", turns: true,
			errors: []int{400, 404, 408, 409, 413, 415, 429, 503, 507},
		}},
		{http.MethodGet, "/responses", s.getWebSocket, about{
			id: "openWebSocket", tag: tagResponses, summary: "Run turns on a WebSocket",
			text: "A GET that asks for an upgrade. One turn runs at a time; answers come in the order of the messages. " +
				"The connection ends after its lifetime with an error of the code " + responses.CodeConnectionLimit +
				".",
			params: []openapi.Parameter{token},
			status: http.StatusSwitchingProtocols, socket: true, errors: []int{400, 405, 429, 503},
		}},
		{http.MethodPost, "/responses/compact", s.compactConversation, about{
			id: "compactResponse", tag: tagResponses, summary: "Make a conversation short",
			text:   "The output is, as it stands, the beginning of the input of a new conversation.",
			params: []openapi.Parameter{token},
			takes:  "CompactResponseMethodPublicBody", gives: reflect.TypeFor[responses.Compacted](), turns: true,
			errors: []int{400, 404, 408, 413, 415, 429, 503},
		}},
		{http.MethodPost, "/responses/input_tokens", s.countTokens, about{
			id: "countInputTokens", tag: tagResponses, summary: "About how many tokens the model would be told first",
			takes: "CreateResponseBody", gives: reflect.TypeFor[tokenCount](),
			errors: []int{400, 404, 408, 413, 415},
		}},
		{http.MethodGet, "/responses/{id}", s.getResponse, about{
			id: "getResponse", tag: tagResponses, summary: "A stored response in any state, or its stream",
			text: "Both parameters may stand in a JSON body instead. include, include[] and include_obfuscation " +
				"have no effect.",
			params: []openapi.Parameter{
				openapi.Query("stream", "replay the stream, then follow it", openapi.Words("true", "false", "1", "0")),
				openapi.Query("starting_after", "the sequence_number of the last event that you have",
					openapi.Integer().AtLeast(0)),
			},
			gives: response, events: "StreamingEvent", errors: []int{400, 404, 408, 413, 415},
		}},
		{http.MethodDelete, "/responses/{id}", s.deleteResponse, about{
			id: "deleteResponse", tag: tagResponses, summary: "Delete a stored response",
			text:  "The files of its turn stay.",
			gives: reflect.TypeFor[deleted](), errors: []int{404, 409},
		}},
		{http.MethodPost, "/responses/{id}/cancel", s.cancelResponse, about{
			id: "cancelResponse", tag: tagResponses, summary: "End a running turn",
			text:  "The answer is its final response, also of one that was over already. A body has no effect.",
			gives: response, errors: []int{400, 404, 408, 413, 415},
		}},
		{http.MethodGet, "/responses/{id}/input_items", s.getInputItems, about{
			id: "listInputItems", tag: tagResponses, summary: "What the request of a response said",
			params: []openapi.Parameter{
				openapi.Query("limit", "", between(1, maxPage, defaultPage)),
				openapi.Query("order", "desc, the newest item first, unless asc", openapi.Words("asc", "desc")),
				openapi.Query("after", "the id of the item before the first", openapi.Text()),
				openapi.Query("before", "the id of the item behind the last", openapi.Text()),
			},
			gives: reflect.TypeFor[itemList](), errors: []int{400, 404},
		}},
	}
}

// turnRoutes show turns as their host sees them.
func (s *Server) turnRoutes() []route {
	return []route{
		{http.MethodGet, "/turns/{id}", s.getTurn, about{
			id: "getTurn", tag: tagTurns, summary: "The record of a turn",
			gives: reflect.TypeFor[turns.Record](), errors: []int{400, 404},
		}},
		{http.MethodGet, "/turns/{id}/events", s.getTurnEvents, about{
			id: "getTurnEvents", tag: tagTurns, summary: "What happened in a turn, one event a line",
			params: []openapi.Parameter{
				openapi.Query("after", "the sequence of the last event that you have", openapi.Integer().AtLeast(0)),
				openapi.Query("follow", "true: send those to come as well, until the turn is over", openapi.Text()),
			},
			lines: "RuntimeEvent", errors: []int{400, 404},
		}},
		{http.MethodPost, "/turns/{id}/input", s.postTurnInput, about{
			id: "writeTurnInput", tag: tagTurns, summary: "Tell the model something while its turn runs",
			text: "The model is told before it is asked next; when it has answered already, it is asked once more. " +
				"The answer says how the message stands. " +
				"Sending the same id and text again changes nothing.",
			takes: "NewTurnInput", gives: reflect.TypeFor[turns.Input](),
			errors: []int{400, 404, 408, 409, 413, 415, 429, 507},
		}},
	}
}
