package conversation

import (
	"context"
	"path/filepath"
	"testing"

	"holon/responses"
	"holon/responses/client"
	"holon/test/expect"
	"holon/test/gittest"
)

// The request of a turn that is sent again once its session is closed gets the answer of the turn: what the
// session adds to it is the same as before, also for the next process.
func TestRepeatClosed(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	gittest.Write(t, l.repo, map[string]string{"sub/file.txt": "file\n"})
	gittest.Run(t, l.repo, "git", "add", ".")
	gittest.Run(t, l.repo, "git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")
	x := l.start(Ask{Workspace: filepath.Join(l.repo, "sub")})
	const id = "turn_once"
	ask := l.post(x, id)
	end, err := x.Turn(t.Context(), id, "", "go on", ask)
	expect.NoError(t, err)
	expect.Equal(t, "status", end.Status, responses.StatusCompleted)
	again := func(what string) {
		t.Helper()
		expect.NoError(t, x.Do(t.Context(), func(ctx context.Context, agent *client.Client) error {
			resp, err := ask(ctx, agent, "")
			if err == nil {
				expect.Equal(t, what, resp.ID, end.ResponseID)
			}
			return err
		}))
	}
	again("while it is open")
	_, err = x.Close(t.Context(), "ann")
	expect.NoError(t, err)
	again("once it is closed")
	expect.NoError(t, l.pool.Close(t.Context()))
	l.restart()
	x, err = l.OfTurn("ann", id)
	expect.NoError(t, err)
	again("for the next process")
}
