package prolog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// metadataEndpoint is where every instance finds its metadata. The variable is that of the AWS SDKs.
const (
	metadataEndpoint = "http://169.254.169.254"
	metadataVariable = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
)

// What is read, and the form of the answers. An answer of another form, such as a proxy's, is ignored.
var questions = []struct {
	path  string
	looks *regexp.Regexp
	into  func(*capacity.Metadata) *string
}{
	{"instance-id", regexp.MustCompile(`^i-[0-9a-f]+$`), func(m *capacity.Metadata) *string { return &m.InstanceID }},
	{"instance-type", regexp.MustCompile(`^[a-z0-9-]+\.[a-z0-9-]+$`), func(m *capacity.Metadata) *string { return &m.InstanceType }},
	{"placement/availability-zone-id", regexp.MustCompile(`^[a-z0-9-]+-az[0-9]+$`), func(m *capacity.Metadata) *string { return &m.AZID }},
	// Only with InstanceMetadataTags, and where ResumeProgram launched the instance.
	{"tags/instance/" + capacity.TagReservation, regexp.MustCompile(`^cr-[0-9a-f]+$`), func(m *capacity.Metadata) *string { return &m.ReservationID }},
}

// metadata reads the instance's metadata service (IMDSv2). Missing items are left out; any other failure is an error.
func metadata(ctx context.Context) (capacity.Metadata, error) {
	var m capacity.Metadata
	base := strings.TrimSuffix(os.Getenv(metadataVariable), "/")
	if base == "" {
		base = metadataEndpoint
	}
	client := &http.Client{Transport: &http.Transport{Proxy: nil}, // the address is this machine's alone
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	token, err := ask(ctx, client, http.MethodPut, base+"/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "60")
	if err != nil {
		return m, err
	}
	for _, q := range questions {
		answer, err := ask(ctx, client, http.MethodGet, base+"/latest/meta-data/"+q.path, "X-aws-ec2-metadata-token", token)
		if errors.Is(err, errNone) {
			continue
		}
		if err == nil && !q.looks.MatchString(answer) {
			err = fmt.Errorf("instance metadata: %s is %q, which is none", q.path, answer)
		}
		if err != nil {
			return m, err
		}
		*q.into(&m) = answer
	}
	return m, nil
}

// errNone: the metadata service does not have the item.
var errNone = errors.New("not there")

// maxAnswer, in bytes, is far more than any expected answer.
const maxAnswer = 1024

func ask(ctx context.Context, client *http.Client, method, url, header, value string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", fmt.Errorf("instance metadata: %w", err)
	}
	request.Header.Set(header, value)
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("instance metadata: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return "", fmt.Errorf("instance metadata: %s: %w", url, err)
	case response.StatusCode == http.StatusNotFound && method == http.MethodGet:
		return "", errNone
	case response.StatusCode != http.StatusOK:
		return "", fmt.Errorf("instance metadata: %s: %s", url, response.Status)
	}
	return string(text), nil
}
