package config

// usages are the help texts of the flags.
var usages = map[string]string{
	"socket":          "Unix `path` to serve on; empty for none",
	"listen":          "also serve on this TCP `address`; loopback only unless --token-file is given",
	"token-file":      "`file` whose content TCP clients must send as a bearer token",
	"input-dir":       "`directory` under which input directories of turns lie",
	"output-dir":      "`directory` under which turns write their records",
	"state-dir":       "`directory` for stored responses",
	"workspace-dir":   "`directory` that is, or holds, the working trees",
	"skills-dir":      "`directory` of skills",
	"agent-home":      "`directory` with the agent's AGENTS.md; empty for none",
	"agent-role":      "default, named or child: only the default agent sees the skills in the user's home",
	"model":           "default model, as `provider/model`",
	"model-fallbacks": "comma-separated `models` to try when the model fails before it says anything",
	"model-socket": "Unix `path` of the model gateway (default " + defaultModelSocket +
		" where that exists)",
	"providers": "comma-separated providers in addition to the built-in ones, as `name` or " +
		"name=contract; behind a gateway: all there are",
	"model-idle-timeout": "how long a provider may be silent",
	"model-timeout":      "how long one attempt at a model may take; 0 for no bound",
	"retry-for": "how long a turn waits for models that are out of order or limit the rate, beyond " +
		"two quick retries; 0 for not at all",
	"model-windows": "comma-separated windows of models in tokens, as `PREFIX=CONTEXT` or " +
		"PREFIX=CONTEXT/OUTPUT, where what is known of them is wrong; 0 for no bound",
	"freeform-tools": "let models of openai/ that may know it write patches as plain text, by a grammar, " +
		"instead of as JSON",
	"concurrency":  "turns that may run at once, each in a session of its own",
	"queue-limit":  "turns that may wait before new ones are refused",
	"max-rounds":   "model rounds after which a turn ends as incomplete",
	"turn-timeout": "wall time after which a turn ends as incomplete",
	"max-output-bytes": "`bytes` in a turn's output directory, its streams included, beyond which it ends as " +
		"incomplete; 0 for no bound",
	"grace":          "time that running turns get to end after SIGTERM",
	"min-free-bytes": "free disk space below which new turns are refused",
	"retain-age":     "time after which stored responses that nothing continues are removed; 0 for never",
	"retain-count": "stored responses beyond which the least recent conversations are removed; 0 for no " +
		"bound",
	"retain-bytes": "size of the stored responses beyond which the least recent conversations are " +
		"removed; 0 for no bound",
	"tools":                      "comma-separated `names` of the container tools that models get; empty for all",
	"default-tool-output-tokens": "how much of a tool's output a model is shown when it does not say, in `tokens`",
	"max-tool-output-tokens":     "how much of a tool's output a model is shown at most, in `tokens`",
	"mcp-config":                 "`file` that names the MCP servers whose tools models get (docs/reference/mcp.md)",
	"host-socket": "Unix `path` of the host's MCP server (default " + defaultHostSocket +
		" where that exists)",
	"pass-env": "comma-separated `names` of variables that commands get although they are not on the " +
		"list of harmless ones",
	"secret-env": "comma-separated `names` of variables whose values are taken out of all that is " +
		"shown and kept, in addition to those whose names say so",
	"egress-socket": "Unix `path` of the host's HTTP proxy, which commands are given (default " +
		defaultEgressSocket + " where that exists)",
	"task-timeout": "time after which a command that became a task is ended",
	"task-notices": "tell the model which tasks have ended, with its next round; a host that follows " +
		"tasks tells it itself",
	"stream-log-bytes": "`bytes` of each output stream of a command that are kept in a file",
	"turn-log-bytes":   "`bytes` of output that the commands of one turn may leave in files",
	"log-bytes": "`bytes` of output that the commands of all turns may leave in files under " +
		"--output-dir",
	"command-user": "`UID[:GID]` of commands, which then cannot reach what is agentd's; agentd has to " +
		"start as root with the capabilities SETUID, SETGID, KILL and CHOWN. Empty: the user " +
		"of agentd",
	"server-user": "`UID[:GID]` that agentd becomes when there is a --command-user",
}
