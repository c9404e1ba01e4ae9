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
const boundary = "==pcs-capacity=="

type userDataType struct{ begins, mimeType string }

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
// with Amazon EC2 user data"). An archive stays as it is, and anything else becomes the only part
// of one. User data that cloud-init would ignore, or that is compressed, is an error.
func UserData(plain []byte) ([]byte, error) {
	if len(plain) == 0 || isMultipart(plain) {
		return plain, nil
	}
	return Archive(plain)
}

// Archive returns a MIME multi-part archive with these parts, which cloud-init handles in this
// order. A part may be an archive itself.
func Archive(parts ...[]byte) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", boundary)

	for _, plain := range parts {
		part, err := archivePart(plain)
		if err != nil {
			return nil, err
		}

		b.Write(part)
	}

	fmt.Fprintf(&b, "--%s--\n", boundary)

	return b.Bytes(), nil
}

func archivePart(plain []byte) ([]byte, error) {
	if isMultipart(plain) {
		if bytes.Contains(plain, []byte(boundary)) {
			return nil, fmt.Errorf("it is an archive that pcs-capacity has made, and goes into no other")
		}
		return fmt.Appendf(nil, "--%s\n%s\n", boundary, plain), nil // its header becomes the part's
	}

	at := slices.IndexFunc(userDataTypes, func(t userDataType) bool { return bytes.HasPrefix(plain, []byte(t.begins)) })
	if at < 0 {
		return nil, fmt.Errorf(
			"it is neither a MIME multi-part archive nor a script (#!) nor #cloud-config, so that nodes would ignore it",
		)
	}

	return fmt.Appendf(nil, "--%s\nContent-Type: %s; charset=\"utf-8\"\nMIME-Version: 1.0\n\n%s\n", boundary,
		userDataTypes[at].mimeType, plain), nil
}

func isMultipart(data []byte) bool {
	message, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return false
	}

	kind, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))

	return err == nil && strings.HasPrefix(kind, "multipart/") && parameters["boundary"] != ""
}
