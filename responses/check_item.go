package responses

import (
	"fmt"
	"strings"

	"holon/internal/visible"
)

// extension is the prefix of everything of ours on the wire.
const extension = "holon:"

// Kinds of parts that may stand in each place. A text of any type is accepted;
// the role of its message decides what it is.
var (
	partsOfMessage = []string{PartInputText, PartOutputText, PartText, PartRefusal, PartInputImage, PartInputFile,
		PartInputVideo}
	partsOfOutput  = []string{PartInputText, PartOutputText, PartText, PartInputImage, PartInputFile, PartInputVideo}
	partsOfSummary = []string{PartSummaryText, PartText, PartOutputText}
	partsOfThought = []string{PartReasoningText, PartSummaryText, PartText, PartOutputText}
)

// calls holds the call ids of an input. Each may occur once: otherwise it would be
// ambiguous which call an output answers.
type calls struct{ made, answered map[string]bool }

// note takes an item in. The error names the key within the item.
func (c *calls) note(item Item) error {
	set, id, what := &c.made, "", "function_call"
	switch item := item.(type) {
	case *FunctionCall:
		id = item.CallID
	case *FunctionCallOutput:
		set, id, what = &c.answered, item.CallID, "function_call_output"
	default:
		return nil
	}
	if (*set)[id] {
		return Invalid("call_id", CodeInvalidValue,
			fmt.Sprintf("there are two items of type %s with the call_id %q; give every call its own", what, id))
	}
	if *set == nil {
		*set = make(map[string]bool)
	}
	(*set)[id] = true
	return nil
}

// checkItem enforces the bounds of an input item (ItemParam). Decoding alone
// does not, since it also reads what a server or a provider made. The error
// names the key within the item.
func checkItem(item Item) error {
	switch item := item.(type) {
	case *Message:
		return firstError(checkStatus(item.Status), checkParts("content", item.Content, partsOfMessage))
	case *FunctionCall:
		return firstError(checkStatus(item.Status), checkToolName("name", item.Name))
	case *FunctionCallOutput:
		return firstError(checkStatus(item.Status), checkParts("output", item.Output, partsOfOutput))
	case *Reasoning:
		return firstError(checkStatus(item.Status), checkParts("summary", item.Summary, partsOfSummary),
			checkParts("content", item.Content, partsOfThought))
	case *Compaction:
		return checkChars("encrypted_content", item.EncryptedContent, maxInputChars)
	case *ToolCall:
		return firstError(checkStatus(item.Status), checkCallID(item.CallID), checkToolName("name", item.Name),
			checkChars("output", item.Output, maxInputChars), checkParts("media", item.Media, partsOfOutput),
			checkChars("round", item.Round, maxCallID),
			checkChars("artifact_dir", item.ArtifactDir, maxArtifactDir))
	case *OpaqueItem:
		if strings.HasPrefix(item.Type, extension) { // of others' items we know that they are not for us
			return Invalid("type", CodeInvalidValue,
				fmt.Sprintf("item type %q is unknown", visible.Clip(item.Type, 64)))
		}
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkStatus(s itemStatus) error {
	return checkWord("status", string(s), "", string(ItemInProgress), string(ItemCompleted), string(ItemIncomplete))
}

func checkParts(path string, parts []Part, allowed []string) error {
	for i, p := range parts {
		err := checkWord("type", p.Type, append([]string{""}, allowed...)...)
		if err == nil {
			err = checkPart(p)
		}
		if err != nil {
			return within(fmt.Sprintf("%s[%d]", path, i), err)
		}
	}
	return nil
}

// checkPart refuses what is too large, and a part without its content: the
// model would be told of something that is not there.
func checkPart(p Part) error {
	missing := func(key, message string) error { return Invalid(key, CodeMissingParameter, message) }
	switch p.Type {
	case PartInputImage:
		if p.ImageURL == "" {
			return missing("image_url", "an input_image needs image_url, an https URL or a data URL")
		}
		return firstError(checkChars("image_url", p.ImageURL, maxImageChars),
			checkMedia("image_url", p.ImageURL, imageData))
	case PartInputFile:
		if p.FileData == "" && p.FileURL == "" {
			return missing("file_data", "an input_file needs file_data, a data URL, or file_url, an https URL")
		}
		return checkFile(p)
	case PartInputVideo:
		if p.VideoURL == "" {
			return missing("video_url", "an input_video needs video_url")
		}
		return checkMedia("video_url", p.VideoURL, videoData)
	case PartRefusal:
		return checkChars("refusal", p.Refusal, maxInputChars)
	}
	return checkChars("text", p.Text, maxInputChars)
}
