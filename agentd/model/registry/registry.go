// Package registry makes transports of the providers that can be used with
// nothing but a key (package internal/providers) and of others that a configuration
// names.
//
// A provider is a name, a contract (which API it speaks) and an endpoint. A
// provider x takes X_BASE_URL, X_API_KEY and the other settings of [Open].
//
// The invariant: a provider that cannot be called, because its contract is unknown
// or its endpoint is not set, has a transport that refuses, so that a fallback
// continues and the record contains the reason.
package registry
