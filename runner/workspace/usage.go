package workspace

import (
	"context"

	"holon/internal/diskusage"
	"holon/runner/workspace/git"
)

// Usage is diskusage.Dir, with the code of its error.
func Usage(ctx context.Context, dir string) (int64, error) {
	n, _, err := diskusage.Dir(ctx, dir)
	if err != nil {
		return 0, git.WithCode("measure "+dir, err)
	}
	return n, nil
}
