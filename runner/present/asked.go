package present

import (
	"cmp"
	"fmt"
	"strings"

	"holon/responses"
)

// Asked are the rows of the messages in the input of a response.
func Asked(id string, asked responses.Items) (rows []Row) {
	for i, it := range asked {
		m, ok := it.(*responses.Message)
		if !ok || m.Role != responses.RoleUser {
			continue
		}
		body := m.Text()
		for _, p := range m.Content {
			if p.Type == responses.PartInputImage || p.Type == responses.PartInputFile {
				body += "\n[" + cmp.Or(p.FileName, "image") + "]"
			}
		}
		rows = append(rows, Row{Key: fmt.Sprintf("%s asked %d", id, i), TurnID: id, Level: Info,
			Category: CategoryMessage, Title: "operator", Body: strings.TrimSpace(body)})
	}
	return rows
}
