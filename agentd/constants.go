package agentd

import (
	"holon/agentd/mcp"
	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/agentd/tools/command"
	"holon/agentd/tools/image"
	"holon/agentd/tools/patch"
	"holon/responses/tasks"
	"holon/responses/turns"
)

// constants are the values of all formats that a turn's stream and files are made of. Redaction leaves them where their
// format has them. In results of tools these alone stay: what a server of tools calls an id may be a secret.
var constants = turns.Constants.With(tasks.Constants, model.Constants, tools.Constants, command.Constants,
	patch.Constants, image.Constants, mcp.Constants)

// structure is constants, and what else stays in records and answers of ours.
var structure = turns.Structure.With(constants)
