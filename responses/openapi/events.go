package openapi

import "holon/responses"

// stream is an event of a stream: its type, its component and its own keys.
type stream struct {
	event, component string
	keys             []Property
}

// streams lists the events that package responses writes by hand (encode.go),
// key by key as they stand there.
func streams() []stream {
	index := Integer().AtLeast(0)
	snapshot := []Property{Key("response", Ref("ResponseResource"))}
	item := []Property{Key("output_index", index), Key("item", Ref("ItemField"))}
	within := func(keys ...Property) []Property {
		return append([]Property{Key("item_id", Text()), Key("output_index", index)}, keys...)
	}
	content := func(keys ...Property) []Property { return append(within(Key("content_index", index)), keys...) }
	summary := func(keys ...Property) []Property { return append(within(Key("summary_index", index)), keys...) }
	text, delta, part := Key("text", Text()), Key("delta", Text()), Key("part", Ref("Content"))
	logprobs := Key("logprobs", Array(Ref("LogProb")))
	return []stream{
		{responses.EventCreated, "ResponseCreatedStreamingEvent", snapshot},
		{responses.EventQueued, "ResponseQueuedStreamingEvent", snapshot},
		{responses.EventInProgress, "ResponseInProgressStreamingEvent", snapshot},
		{responses.EventCompleted, "ResponseCompletedStreamingEvent", snapshot},
		{responses.EventFailed, "ResponseFailedStreamingEvent", snapshot},
		{responses.EventIncomplete, "ResponseIncompleteStreamingEvent", snapshot},
		{responses.EventItemAdded, "ResponseOutputItemAddedStreamingEvent", item},
		{responses.EventItemDone, "ResponseOutputItemDoneStreamingEvent", item},
		{responses.EventPartAdded, "ResponseContentPartAddedStreamingEvent", content(part)},
		{responses.EventPartDone, "ResponseContentPartDoneStreamingEvent", content(part)},
		{responses.EventTextDelta, "ResponseOutputTextDeltaStreamingEvent", content(delta, logprobs)},
		{responses.EventTextDone, "ResponseOutputTextDoneStreamingEvent", content(text, logprobs)},
		{responses.EventAnnotationAdded, "ResponseOutputTextAnnotationAddedStreamingEvent",
			content(Key("annotation_index", index), Key("annotation", Ref("Annotation")))},
		{responses.EventRefusalDelta, "ResponseRefusalDeltaStreamingEvent", content(delta)},
		{responses.EventRefusalDone, "ResponseRefusalDoneStreamingEvent", content(Key("refusal", Text()))},
		{responses.EventReasoningDelta, "ResponseReasoningDeltaStreamingEvent", content(delta)},
		{responses.EventReasoningDone, "ResponseReasoningDoneStreamingEvent", content(text)},
		{responses.EventReasoningSummaryPartAdded, "ResponseReasoningSummaryPartAddedStreamingEvent", summary(part)},
		{responses.EventReasoningSummaryPartDone, "ResponseReasoningSummaryPartDoneStreamingEvent", summary(part)},
		{responses.EventReasoningSummaryTextDelta, "ResponseReasoningSummaryDeltaStreamingEvent", summary(delta)},
		{responses.EventReasoningSummaryTextDone, "ResponseReasoningSummaryDoneStreamingEvent", summary(text)},
		{responses.EventArgumentsDelta, "ResponseFunctionCallArgumentsDeltaStreamingEvent", within(delta)},
		{responses.EventArgumentsDone, "ResponseFunctionCallArgumentsDoneStreamingEvent",
			within(Key("name", Text()), Key("arguments", Text()))},
	}
}

// events describes what an Emitter emits, and the error event of the protocol.
func (s *Set) events() {
	sequence := Key("sequence_number", Integer().AtLeast(0).Says("0, 1, 2, … within the stream."))
	var names []string
	for _, e := range streams() {
		s.define(e.component, Object(append([]Property{Key("type", Exactly(e.event)), sequence}, e.keys...)...))
		names = append(names, e.component)
	}
	s.define("ErrorStreamingEvent", Object(Key("type", Exactly(responses.EventError)), sequence,
		Key("error", Ref("ErrorPayload"))).
		Says("The error event of the protocol. This server answers with an HTTP error before a stream begins and "+
			"ends a stream that fails with response.failed, so it does not send it."))
	names = append(names, "ErrorStreamingEvent")
	s.define("StreamingEvent", union("type", names, func(name string) string { return s.constant(name, "type") }).
		Says("An event of the stream of a response. Skip types that you do not know."))
}
