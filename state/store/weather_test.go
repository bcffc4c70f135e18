package store

import (
	"testing"

	"holon/state"
	"holon/test/buckettest"
	"holon/test/expect"
)

// Each kind of bad weather between a host and its bucket has a code of its own, for what saves and what loads; once it is
// over, the same save succeeds and another host has the file.
func TestWeather(t *testing.T) {
	server, _ := bucket(t)
	proxy := server.Proxy(t)
	b, err := OpenS3(proxy.URL(), Keys{ID: buckettest.ID, Secret: buckettest.Secret})
	expect.NoError(t, err)
	fence := int64(1)
	for weather, want := range map[buckettest.Weather]state.Code{buckettest.Cut: CodeAway, buckettest.Stalled: CodeAway,
		buckettest.Denied: CodeDenied, buckettest.Full: CodeFull, buckettest.Quota: CodeFull} {
		one := newHost(t, b, fence)
		expect.NoError(t, one.load())
		text := string(want) + " before it was saved"
		one.write("a", text)
		proxy.Set(weather)
		code(t, one.save(), want)
		code(t, one.Problem(), want)
		code(t, newHost(t, b, fence+1).load(), want)
		proxy.Set(buckettest.Fair)
		expect.NoError(t, one.save())
		expect.NoError(t, one.Problem())
		other := newHost(t, b, fence+1)
		expect.NoError(t, other.load())
		expect.Equal(t, "what another host has", other.read("a"), text)
		fence += 2
	}
}
