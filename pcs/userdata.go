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
	for _, t := range userDataTypes {
		if bytes.HasPrefix(plain, []byte(t.begins)) {
			var b bytes.Buffer
			fmt.Fprintf(&b, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", boundary)
			fmt.Fprintf(&b, "--%s\nContent-Type: %s; charset=\"utf-8\"\nMIME-Version: 1.0\n\n%s", boundary, t.mimeType, plain)
			fmt.Fprintf(&b, "\n--%s--\n", boundary)
			return b.Bytes(), nil
		}
	}
	return nil, fmt.Errorf("it is neither a MIME multi-part archive nor a script (#!) nor #cloud-config, so that nodes would ignore it")
}

func isMultipart(data []byte) bool {
	message, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return false
	}
	kind, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	return err == nil && strings.HasPrefix(kind, "multipart/") && parameters["boundary"] != ""
}
