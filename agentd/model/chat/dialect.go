package chat

import (
	"slices"

	"holon/internal/providers"
)

// dialect is what the endpoint takes.
type dialect providers.Dialect

func (d *dialect) omits(key string) bool { return slices.Contains(d.Omit, key) }
