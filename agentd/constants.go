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
// format has them.
var constants = turns.Constants.With(tasks.Constants, model.Constants, tools.Constants, command.Constants,
	patch.Constants, image.Constants, mcp.Constants)
