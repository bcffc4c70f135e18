package responses

import "reflect"

// RequestShape returns the Go type that a body of POST /responses is decoded
// into: its fields have the names of the keys and the types that the decoder
// takes. It is there for those who describe the protocol (responses/openapi), so
// that no key can be read without being described.
func RequestShape() reflect.Type { return reflect.TypeFor[wireRequest]() }
