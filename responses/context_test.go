package responses_test

import (
	"testing"

	"holon/responses"
	"holon/test/expect"
)

func TestIsContext(t *testing.T) {
	for id, want := range map[string]bool{"": false, "msg_1": false, "ctx_policy_0": true, "xctx_": false} {
		expect.Equal(t, id, responses.IsContext(&responses.Message{ID: id, Role: responses.RoleDeveloper}), want)
	}
}
