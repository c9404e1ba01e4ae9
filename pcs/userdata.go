package pcs

import (
	"bytes"
	"fmt"
	"mime"
	"net/mail"
	"strings"
)

// boundary separates the parts of user data. It is fixed, so that the same user data
// makes the same launch template.
const boundary = "==pcs-capacity=="

// userDataTypes are the MIME types of what user data can begin with, as cloud-init tells
// them apart (cloud-init documentation, "User data formats").
var userDataTypes = []struct{ begins, mimeType string }{
	{"#!", "text/x-shellscript"},
	{"#cloud-config", "text/cloud-config"},
	{"#cloud-boothook", "text/cloud-boothook"},
	{"#include", "text/x-include-url"},
	{"## template: jinja", "text/jinja2"},
}

// UserData is user data as PCS wants it, a MIME multi-part archive (AWS PCS User Guide,
// "Working with Amazon EC2 user data"): what is one already is left as it is, and
// anything else becomes the only part of one. User data that cloud-init would ignore, or
// that is compressed, is an error.
func UserData(plain []byte) ([]byte, error) {
	if len(plain) == 0 || isMultipart(plain) {
		return plain, nil
	}
	return Archive(plain)
}

// Archive is a MIME multi-part archive with these parts, which cloud-init handles in this
// order. A part may be an archive itself.
func Archive(parts ...[]byte) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", boundary)
	for _, plain := range parts {
		if isMultipart(plain) {
			if bytes.Contains(plain, []byte(boundary)) {
				return nil, fmt.Errorf("it is an archive that pcs-capacity has made, and goes into no other")
			}
			fmt.Fprintf(&b, "--%s\n%s\n", boundary, plain) // its header is that of the part
			continue
		}
		kind := mimeType(plain)
		if kind == "" {
			return nil, fmt.Errorf("it is neither a MIME multi-part archive nor a script (#!) nor #cloud-config, so that nodes would ignore it")
		}
		fmt.Fprintf(&b, "--%s\nContent-Type: %s; charset=\"utf-8\"\nMIME-Version: 1.0\n\n%s\n", boundary, kind, plain)
	}
	fmt.Fprintf(&b, "--%s--\n", boundary)
	return b.Bytes(), nil
}

// mimeType is that of user data by its beginning; "" for what cloud-init would ignore.
func mimeType(plain []byte) string {
	for _, t := range userDataTypes {
		if bytes.HasPrefix(plain, []byte(t.begins)) {
			return t.mimeType
		}
	}
	return ""
}

func isMultipart(data []byte) bool {
	message, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return false
	}
	kind, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	return err == nil && strings.HasPrefix(kind, "multipart/") && parameters["boundary"] != ""
}
