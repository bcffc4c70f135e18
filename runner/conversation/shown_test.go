package conversation

import (
	"context"
	"testing"

	"holon/responses/client"
	"holon/test/expect"
)

// What a client is answered names no directory of the host, with the local engine as in a container.
func TestResponsesNameNoHostPath(t *testing.T) {
	l := newLab(t, nil)
	x := l.start(Ask{})
	end := l.turn(x)
	expect.NoError(t, x.Do(t.Context(), func(ctx context.Context, agent *client.Client) error {
		resp, err := agent.GetResponse(ctx, x.Current())
		if err == nil {
			expect.Equal(t, "output directory", resp.Holon.OutputDir, "/holon/output/turns/"+end.TurnID)
		}
		return err
	}))
}
