package awsconfig_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// noFiles keeps the machine's own configuration out, and has the SDK look for metadata at an address.
func noFiles(t *testing.T, metadata string) {
	t.Helper()

	for key, value := range map[string]string{
		"AWS_CONFIG_FILE":                   filepath.Join(t.TempDir(), "none"),
		"AWS_SHARED_CREDENTIALS_FILE":       filepath.Join(t.TempDir(), "none"),
		"AWS_ACCESS_KEY_ID":                 "",
		"AWS_SECRET_ACCESS_KEY":             "",
		"AWS_PROFILE":                       "",
		"AWS_ENDPOINT_URL":                  "http://127.0.0.1:1",
		"AWS_REGION":                        "",
		"AWS_EC2_METADATA_DISABLED":         "false",
		"AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata,
	} {
		t.Setenv(key, value)
	}
}

// silence is an address that takes connections and says nothing.
func silence(t *testing.T) (url string) {
	t.Helper()

	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes them
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { l.Close() })

	return "http://" + l.Addr().String()
}

// Without credentials all calls of all clients say so, and what to do.
func TestNoCredentialsIsOneVerdict(t *testing.T) {
	for name, metadata := range map[string]string{
		"metadata refused": "http://127.0.0.1:1",
		"metadata silent":  silence(t),
	} {
		t.Run(name, func(t *testing.T) {
			noFiles(t, metadata)

			c, err := ec2.New(t.Context(), ec2.Options{Region: "us-east-2"})
			if err != nil {
				t.Fatal(err)
			}

			group := pcs.From(c.Shared())
			for _, ask := range []func(context.Context) error{
				func(ctx context.Context) error { _, err := c.Regions(ctx); return err },
				func(ctx context.Context) error { _, err := group.Clusters(ctx); return err },
				func(ctx context.Context) error { _, err := c.Account(ctx); return err },
				func(ctx context.Context) error {
					_, err := c.FindReservations(ctx, ec2.ReservationQuery{})
					return err
				},
				func(ctx context.Context) error {
					_, err := c.In("us-west-2").FindReservations(ctx, ec2.ReservationQuery{})
					return err
				},
			} {
				err := ask(t.Context())

				var none *awsconfig.NoCredentials
				if !errors.As(err, &none) ||
					!strings.Contains(
						err.Error(),
						"there are no AWS credentials; set AWS_PROFILE",
					) {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

// Nor does the region come from metadata that does not answer.
func TestNoRegion(t *testing.T) {
	noFiles(t, silence(t))

	if _, err := ec2.New(t.Context(), ec2.Options{}); err == nil || !strings.Contains(err.Error(), "--region") {
		t.Error(err)
	}
}
