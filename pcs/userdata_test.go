package pcs_test

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/pcs"
)

func TestUserDataIsMultipart(t *testing.T) {
	for plain, want := range map[string]string{
		"#!/bin/sh\necho up\n":          "text/x-shellscript",
		"#cloud-config\nmounts: []\n":   "text/cloud-config",
		"#cloud-boothook\n#!/bin/sh\n":  "text/cloud-boothook",
		"#include\nhttps://example.com": "text/x-include-url",
	} {
		wrapped, err := pcs.UserData([]byte(plain))
		if err != nil {
			t.Fatal(err)
		}
		message, err := mail.ReadMessage(bytes.NewReader(wrapped))
		if err != nil {
			t.Fatal(err)
		}
		_, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		parts := multipart.NewReader(message.Body, parameters["boundary"])
		part, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		text, err := io.ReadAll(part)
		if kind != want || string(text) != plain || err != nil {
			t.Errorf("%q: %s, %q, %v", plain, kind, text, err)
		}
		if _, err := parts.NextPart(); err != io.EOF {
			t.Errorf("%q: more than one part: %v", plain, err)
		}
		if again, err := pcs.UserData(wrapped); err != nil || !bytes.Equal(again, wrapped) {
			t.Errorf("%q: wrapped again: %q, %v", plain, again, err)
		}
	}
	for _, bad := range []string{"echo up\n", "\x1f\x8b\x08", "Content-Type: text/plain\n\nhello"} {
		if _, err := pcs.UserData([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if none, err := pcs.UserData(nil); len(none) > 0 || err != nil {
		t.Errorf("nothing became %q, %v", none, err)
	}
}
