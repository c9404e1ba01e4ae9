package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
)

// bootScripts are the scripts of user data, in the order in which cloud-init runs them.
func bootScripts(userData string) ([]string, error) {
	plain, err := base64.StdEncoding.DecodeString(userData)
	if err != nil {
		return nil, fmt.Errorf("the user data is no base64: %w", err)
	}
	if strings.HasPrefix(string(plain), "#!") {
		return []string{string(plain)}, nil
	}
	message, err := mail.ReadMessage(strings.NewReader(string(plain)))
	if err != nil {
		return nil, nil // cloud-init ignores it
	}
	return partScripts(message.Header.Get("Content-Type"), message.Body)
}

// partScripts are those of a part of an archive, and of the parts in it.
func partScripts(contentType string, body io.Reader) ([]string, error) {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(kind, "multipart/") {
		text, err := io.ReadAll(body)
		if err != nil || kind != "text/x-shellscript" {
			return nil, err
		}
		return []string{string(text)}, nil
	}
	var all []string
	for parts := multipart.NewReader(body, parameters["boundary"]); ; {
		part, err := parts.NextPart()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		scripts, err := partScripts(part.Header.Get("Content-Type"), part)
		if err != nil {
			return nil, err
		}
		all = append(all, scripts...)
	}
}
