package chat

import (
	"slices"

	"holon/internal/providers"
)

// dialect describes the parameters that the endpoint accepts.
type dialect providers.Dialect

func (d *dialect) omits(key string) bool { return slices.Contains(d.Omit, key) }
