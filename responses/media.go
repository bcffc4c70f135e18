package responses

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"mime"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"holon/internal/picture"
	"holon/internal/visible"
)

// This file holds the one rule about the content of images, files and videos. It is
// the same for every provider: what it lets pass, each provider that takes such
// content at all can be given.

// content judges the data of a data URL by its media type. It returns why the data is
// refused, or "".
type content func(mediaType string, data []byte) string

// checkMedia checks the address of content: an https URL, or a data URL that takes
// says yes to.
func checkMedia(param, address string, takes content) error {
	if scheme, _, _ := strings.Cut(address, ":"); strings.EqualFold(scheme, "data") {
		return checkDataURL(param, address, takes)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme == "":
		return Invalid(param, CodeInvalidValue, param+" must be an https URL or a data URL; this is neither")
	case u.Scheme != "https":
		return Invalid(param, CodeInvalidValue,
			fmt.Sprintf("%s must be an https URL or a data URL; the scheme %s is refused", param,
				visible.Clip(u.Scheme, 32)))
	case u.Hostname() == "":
		return Invalid(param, CodeInvalidValue, param+" is an https URL without a host")
	}
	return nil
}

// checkFile checks the data or the address of a file, or both.
func checkFile(p Part) error {
	if err := checkChars("file_data", p.FileData, maxFileChars); err != nil {
		return err
	}
	if p.FileData != "" {
		if err := checkDataURL("file_data", p.FileData, fileData); err != nil {
			return err
		}
	}
	if p.FileURL == "" {
		return nil
	}
	if scheme, _, _ := strings.Cut(p.FileURL, ":"); strings.EqualFold(scheme, "data") {
		return Invalid("file_url", CodeInvalidValue, "file_url must be an https URL; a data URL belongs in file_data")
	}
	return checkMedia("file_url", p.FileURL, nil)
}

// checkDataURL checks data:TYPE;base64,DATA.
func checkDataURL(param, address string, takes content) error {
	refuse := func(why string) error { return Invalid(param, CodeInvalidValue, why) }
	scheme, rest, _ := strings.Cut(address, ":")
	head, data, ok := strings.Cut(rest, ",")
	kind, isBase64 := strings.CutSuffix(head, ";base64")
	if scheme != "data" || !ok || !isBase64 || head != strings.ToLower(head) { // providers know no other case
		return refuse(param + " must be a data URL of the form data:TYPE;base64,DATA, with the type in lower case")
	}
	mediaType, _, err := mime.ParseMediaType(kind)
	if err != nil || !strings.Contains(mediaType, "/") {
		return refuse(fmt.Sprintf("the data URL in %s has no media type, or one that cannot be read: %q", param,
			visible.Clip(kind, 64)))
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(data)
	if err != nil || strings.ContainsAny(data, "\r\n") { // which the decoder skips
		return refuse("the data URL in " + param + " holds data that is not base64")
	}
	if why := takes(mediaType, decoded); why != "" {
		return refuse("the data URL in " + param + why)
	}
	return nil
}

// imageData takes what models can be shown, so that no provider refuses a conversation for good.
func imageData(mediaType string, data []byte) string {
	if !slices.Contains([]string{"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"}, mediaType) {
		return fmt.Sprintf(" is of type %s; images are PNG, JPEG, WebP or GIF", visible.Clip(mediaType, 64))
	}
	switch info, err := picture.Examine(data); {
	case info.MediaType != strings.Replace(mediaType, "jpg", "jpeg", 1):
		return " is not what it says, " + mediaType
	case err != nil:
		return ": the picture " + err.Error()
	}
	return ""
}

// fileData takes what every provider of files does: PDF, images and text.
func fileData(mediaType string, data []byte) string {
	switch {
	case strings.HasPrefix(mediaType, "image/"):
		return imageData(mediaType, data)
	case mediaType == "application/pdf":
		if !bytes.HasPrefix(data, []byte("%PDF-")) {
			return " is not what it says, " + mediaType
		}
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return fmt.Sprintf(" is of type %s and is not text; files are PDF, PNG, JPEG, WebP, GIF, or text in UTF-8",
			visible.Clip(mediaType, 64))
	}
	return ""
}

func videoData(mediaType string, _ []byte) string {
	if !strings.HasPrefix(mediaType, "video/") {
		return fmt.Sprintf(" is of type %s; it must be a video", visible.Clip(mediaType, 64))
	}
	return ""
}
