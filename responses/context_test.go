package responses_test

import (
	"testing"

	"holon/responses"
)

func TestIsContext(t *testing.T) {
	for id, want := range map[string]bool{"": false, "msg_1": false, "ctx_policy_0": true, "xctx_": false} {
		if got := responses.IsContext(&responses.Message{ID: id, Role: responses.RoleDeveloper}); got != want {
			t.Errorf("%q: %t", id, got)
		}
	}
}
