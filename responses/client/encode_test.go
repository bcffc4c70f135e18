package client

import (
	"errors"
	"strings"
	"testing"

	"holon/responses"
	"holon/test/expect"
)

func TestRequestsAreBounded(t *testing.T) {
	if want := 96 << 20; maxRequest != want {
		t.Errorf("a request has at most %d bytes, want %d", maxRequest, want)
	}
	const limit = 1 << 20
	one, err := encodeRequest(*responses.NewRequest("m"), limit)
	expect.NoError(t, err)
	room := limit - len(one) + 1
	if _, err := encodeRequest(*responses.NewRequest(strings.Repeat("m", room)), limit); err != nil {
		t.Errorf("a request of %d bytes: %v", limit, err)
	}
	_, err = encodeRequest(*responses.NewRequest(strings.Repeat("m", room+1)), limit)
	if e, ok := errors.AsType[*responses.Error](err); !ok || e.Code != responses.CodeRequestTooLarge {
		t.Errorf("a request of %d bytes: got %v, want the code %s", limit+1, err, responses.CodeRequestTooLarge)
	}
}
