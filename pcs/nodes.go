package pcs

import (
	"bytes"
	"fmt"
	"mime"
	"net/mail"
	"slices"
	"strings"
)

// boundary separates the parts of user data. It is fixed: the same user data makes the same launch template.
const (
	boundary      = "==pcs-capacity=="
	archiveHeader = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"" + boundary + "\"\n\n"
	delimiter     = "--" + boundary + "\n"
	archiveEnd    = "\n--" + boundary + "--\n"
)

type userDataType struct{ begins, mimeType string }

// header is that of a part.
func (t userDataType) header() string {
	return "Content-Type: " + t.mimeType + "; charset=\"utf-8\"\nMIME-Version: 1.0\n\n"
}

// userDataTypes maps the beginnings of user data to MIME types, as cloud-init does (cloud-init
// documentation, "User data formats").
var userDataTypes = []userDataType{
	{"#!", "text/x-shellscript"},
	{"#cloud-config", "text/cloud-config"},
	{"#cloud-boothook", "text/cloud-boothook"},
	{"#include", "text/x-include-url"},
	{"## template: jinja", "text/jinja2"},
}

// UserData returns user data as PCS wants it, a MIME multi-part archive (AWS PCS User Guide, "Working
// with Amazon EC2 user data"). An archive alone stays as it is, and anything else becomes a part
// of one. User data that cloud-init would ignore, or that is compressed, is an error.
func UserData(parts ...[]byte) ([]byte, error) {
	switch {
	case len(parts) == 0:
		return nil, nil
	case len(parts) == 1 && isMultipart(parts[0]):
		return parts[0], nil
	}

	return Archive(parts...)
}

// Parts returns what Archive was given. Other user data is the only part.
func Parts(data []byte) (parts [][]byte) {
	if len(data) == 0 {
		return nil
	}

	body, ours := bytes.CutPrefix(data, []byte(archiveHeader+delimiter))
	if !ours {
		return [][]byte{data}
	}

	body = bytes.TrimSuffix(body, []byte(archiveEnd))
	for part := range bytes.SplitSeq(body, []byte("\n"+delimiter)) {
		for _, t := range userDataTypes {
			part = bytes.TrimPrefix(part, []byte(t.header()))
		}

		parts = append(parts, part)
	}

	return parts
}

// Archive returns a MIME multi-part archive with these parts, which cloud-init handles in this
// order. A part may be an archive itself.
func Archive(parts ...[]byte) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(archiveHeader)

	for i, plain := range parts {
		header, err := partHeader(plain)
		if err != nil {
			return nil, err
		}

		if i > 0 {
			b.WriteByte('\n')
		}

		b.WriteString(delimiter + header)
		b.Write(plain)
	}

	b.WriteString(archiveEnd)

	return b.Bytes(), nil
}

// partHeader returns what stands before a part.
func partHeader(plain []byte) (string, error) {
	if isMultipart(plain) {
		if bytes.Contains(plain, []byte(boundary)) {
			return "", fmt.Errorf("it is an archive that pcs-capacity has made, and goes into no other")
		}
		return "", nil // its header becomes the part's
	}

	at := slices.IndexFunc(userDataTypes, func(t userDataType) bool { return bytes.HasPrefix(plain, []byte(t.begins)) })
	if at < 0 {
		return "", fmt.Errorf(
			"it is neither a MIME multi-part archive nor a script (#!) nor #cloud-config, so that nodes would ignore it",
		)
	}

	return userDataTypes[at].header(), nil
}

func isMultipart(data []byte) bool {
	message, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return false
	}

	kind, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))

	return err == nil && strings.HasPrefix(kind, "multipart/") && parameters["boundary"] != ""
}
