package chat

import (
	"slices"

	"holon/responses/models"
)

// dialect is what the endpoint takes.
type dialect models.Dialect

func (d *dialect) omits(key string) bool { return slices.Contains(d.Omit, key) }
