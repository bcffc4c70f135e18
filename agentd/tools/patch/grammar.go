package patch

import "holon/agentd/tools"

// freeform returns the tool's form for models that write the patch without the quoting of JSON. The grammar admits the
// envelope only, and nothing that parse merely tolerates.
func freeform() *tools.Grammar {
	return &tools.Grammar{Argument: "patch", Description: freeDescription, Syntax: "lark", Definition: grammarText}
}

const freeDescription = "Changes files of the working tree. Write the patch itself, not JSON, between the lines " +
	"\"*** Begin Patch\" " +
	"and \"*** End Patch\". Paths are relative to the root of the working tree.\n" +
	"\"*** Add File: PATH\" is followed by the lines of the new file, each with a + before it. \"*** Delete File: " +
	"PATH\" stands alone. \"*** Update File: PATH\", with \"*** Move to: NEWPATH\" below it to rename the file, " +
	"is followed by hunks: a line @@, after which a line that stands above the place may be named, then unchanged " +
	"lines with a space, removed ones with - and new ones with + before them. \"*** End of File\" ends a hunk at " +
	"the end of the file.\n" +
	"Hunks are found by their text, so give three unchanged lines before and after each change, exactly as they " +
	"are in the file. All files are changed or none."

// grammarText describes the envelope in Lark. It is regular: no rule is recursive.
const grammarText = `start: begin file+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?

file: add | delete | update
add: "*** Add File: " PATH LF new+
delete: "*** Delete File: " PATH LF
update: "*** Update File: " PATH LF (move hunk* | hunk+)
move: "*** Move to: " PATH LF

new: "+" TEXT LF
hunk: anchor+ line+ last?
anchor: "@@" (" " TEXT)? LF
line: (" " | "+" | "-") TEXT LF
last: "*** End of File" LF

PATH: /[^ \t\r\n][^\r\n]*/
TEXT: /[^\r\n]*/
LF: "\n"
`
