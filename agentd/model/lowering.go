package model

// LoweredFull is the way in which requests are sent: with the whole conversation.
const LoweredFull = "full"

// Lowering describes the request that a transport made of a [Request] (runtime
// specification, "Provider Prompt Frame"). It holds no secret and no content.
type Lowering struct {
	Mode        string // LoweredFull; "" when nothing is known
	Items       int    // of the conversation that were sent
	Bytes       int    // of the request's body
	CacheKey    bool   // a cache key was sent
	Breakpoints int    // markers of cacheable prefixes that were sent
}

// Lowered records l for the caller of the transport, if it asked for it.
func (req *Request) Lowered(l Lowering) {
	if req.Lowering != nil {
		*req.Lowering = l
	}
}
