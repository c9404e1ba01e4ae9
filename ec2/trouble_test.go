package ec2

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

// explained asks for a reservation and explains why there is no answer.
func explained(t *testing.T, ctx context.Context, c *Client) (words string, general bool) {
	t.Helper()

	_, _, err := c.Reservations(ctx, []string{openBlock})
	if err == nil {
		t.Fatal("EC2 answers")
	}

	return c.Explain(err)
}

// TestExplainGeneralTrouble: trouble that every call would meet is one sentence with its remedy.
func TestExplainGeneralTrouble(t *testing.T) {
	t.Setenv("AWS_MAX_ATTEMPTS", "1") // the SDK would wait between its own attempts

	refused := func(code string) func(*testing.T, *awssim.Sim) {
		return func(t *testing.T, sim *awssim.Sim) {
			fault(t, sim, awssim.Fault{Effect: awssim.FailBefore, Code: code, Message: "told by AWS"})
		}
	}
	environment := func(pairs ...string) func(*testing.T, *awssim.Sim) {
		return func(t *testing.T, _ *awssim.Sim) {
			for i := 0; i < len(pairs); i += 2 {
				t.Setenv(pairs[i], pairs[i+1])
			}
		}
	}
	dead := httptest.NewServer(nil)
	dead.Close()

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	const (
		renew  = "renew them, for example with `aws sso login`"
		accept = "AWS does not accept the credentials (%s in us-east-2); check them with `aws sts " +
			"get-caller-identity`, and that the account has enabled the region"
		none = "; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a host with an instance " +
			"profile"
		network = "; check the network, VPC endpoints and AWS_ENDPOINT_URL"
	)
	for name, test := range map[string]struct {
		change func(*testing.T, *awssim.Sim)
		want   string
	}{
		"expired": {
			refused("ExpiredToken"),
			"the AWS credentials have expired (ExpiredToken in us-east-2); " + renew,
		},
		"expired, at PCS": {
			refused("ExpiredTokenException"),
			"the AWS credentials have expired (ExpiredTokenException in us-east-2); " + renew,
		},
		"expired request": {
			refused("RequestExpired"),
			"the AWS credentials have expired, or the clock of this machine is wrong (RequestExpired in us-east-2); " +
				"renew the credentials or correct the clock",
		},
		"unknown key":  {refused("AuthFailure"), fmt.Sprintf(accept, "AuthFailure")},
		"wrong secret": {refused("SignatureDoesNotMatch"), fmt.Sprintf(accept, "SignatureDoesNotMatch")},
		"closed region": {
			refused("OptInRequired"),
			"the account has not enabled the region (OptInRequired in us-east-2); check the region, or enable it in " +
				"the AWS console",
		},
		"no credentials": {
			environment("AWS_ACCESS_KEY_ID", "", "AWS_SECRET_ACCESS_KEY", "", "AWS_EC2_METADATA_DISABLED", "true"),
			"there are no AWS credentials" + none,
		},
		"broken profile": {
			environment("AWS_ACCESS_KEY_ID", "", "AWS_SECRET_ACCESS_KEY", "", "AWS_CONFIG_FILE",
				writeFile(t, "[default]\ncredential_process = false\n")),
			"there are no AWS credentials (failed to refresh cached credentials, process provider error: error in " +
				"credential_process: exit status 1)" + none,
		},
		"dead endpoint": {
			environment("AWS_ENDPOINT_URL", dead.URL),
			"AWS cannot be reached at " + strings.TrimPrefix(dead.URL, "http://") + " (connection refused)" + network,
		},
		"silent endpoint": {
			environment("AWS_ENDPOINT_URL", "http://"+silent.Addr().String()),
			"AWS cannot be reached at " + silent.Addr().String() + " (no answer in time)" + network,
		},
		"broken endpoint": {
			func(t *testing.T, sim *awssim.Sim) { fault(t, sim, awssim.Fault{Effect: awssim.CutBefore}) },
			"AWS cannot be reached at HOST (the connection broke)" + network,
		},
		"not even a start": {func(*testing.T, *awssim.Sim) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sim, _ := newSim(t)
			test.change(t, sim)

			c, err := New(t.Context(), Options{})
			if err != nil {
				t.Fatal(err)
			}

			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()

			if test.want == "" { // the deadline had passed
				cancel()
				ctx, cancel = context.WithDeadline(t.Context(), time.Unix(0, 0))
				defer cancel()

				test.want = "AWS cannot be reached at HOST (no answer in time)" + network
			}

			want := strings.ReplaceAll(test.want, "HOST", strings.TrimPrefix(os.Getenv("AWS_ENDPOINT_URL"), "http://"))
			for range 2 {
				if words, general := explained(t, ctx, c); words != want || !general {
					t.Errorf("general %t, said\n%s\nwant\n%s", general, words, want)
				}
			}
		})
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()

	path := t.TempDir() + "/file"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	return path
}
