package awsconfig

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
)

// Messages of AWS, as seen in public issues and in the IAM User Guide, "Troubleshoot access denied error messages".
func TestDenied(t *testing.T) {
	for name, c := range map[string]struct {
		code, service, operation, message string
		want                              string // "" for no Denied
	}{
		"no policy": {
			"UnauthorizedOperation", "EC2", "DescribeSubnets",
			"You are not authorized to perform this operation. User: arn:aws:iam::1:user/x is not authorized to " +
				"perform: ec2:DescribeSubnets because no identity-based policy allows the ec2:DescribeSubnets action",
			"ec2:DescribeSubnets is not allowed for arn:aws:iam::1:user/x (UnauthorizedOperation)",
		},
		"another action, on a resource": {
			"UnauthorizedOperation", "EC2", "RunInstances",
			"You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/r/i-0 is not " +
				"authorized to perform: iam:PassRole on resource: arn:aws:iam::1:role/nodes because no " +
				"identity-based policy allows the iam:PassRole action. Encoded authorization failure message: 4bz0-hJk",
			"iam:PassRole is not allowed for arn:aws:sts::1:assumed-role/r/i-0 on arn:aws:iam::1:role/nodes " +
				"(UnauthorizedOperation)",
		},
		"explicit deny": {
			"AccessDeniedException", "PCS", "UpdateQueue",
			"User: arn:aws:iam::1:user/x is not authorized to perform: pcs:UpdateQueue on resource: " +
				"arn:aws:pcs:us-east-2:1:cluster/pcs_1 with an explicit deny in a service control policy",
			"pcs:UpdateQueue is not allowed for arn:aws:iam::1:user/x on arn:aws:pcs:us-east-2:1:cluster/pcs_1 with " +
				"an explicit deny in a service control policy (AccessDeniedException)",
		},
		"boundary": {
			"AccessDenied", "IAM", "GetInstanceProfile",
			"User: arn:aws:iam::1:user/x is not authorized to perform: iam:GetInstanceProfile on resource: instance " +
				"profile p.x because no permissions boundary allows the iam:GetInstanceProfile action",
			"iam:GetInstanceProfile is not allowed for arn:aws:iam::1:user/x on instance profile p.x because no " +
				"permissions boundary allows the iam:GetInstanceProfile action (AccessDenied)",
		},
		"old words": {
			"UnauthorizedOperation", "EC2", "RunInstances",
			"You are not authorized to perform this operation. Encoded authorization failure message: 4bz0-hJk",
			"ec2:RunInstances, or what else it needs, is not allowed (UnauthorizedOperation)",
		},
		"old words, reading": {
			"UnauthorizedOperation", "EC2", "DescribeSubnets", "You are not authorized to perform this operation.",
			"ec2:DescribeSubnets is not allowed (UnauthorizedOperation)",
		},
		"UltraServers": {
			"UnauthorizedOperation", "EC2", "DescribeCapacityBlockOfferings",
			"This account is not authorized to call DescribeCapacityBlockOfferings for UltraServers", "",
		},
		"another code": {
			"InvalidParameterValue", "EC2", "DescribeSubnets",
			"User: x is not authorized to perform: ec2:DescribeSubnets", "",
		},
	} {
		aws := &smithy.GenericAPIError{Code: c.code, Message: c.message, Fault: smithy.FaultClient}
		err := asDenied(c.service, c.operation, aws)

		var d *Denied
		switch is := errors.As(err, &d); {
		case is != (c.want != ""):
			t.Errorf("%s: %v", name, err)
		case is &&
			(err.Error() != c.want || d.ErrorCode() != c.code || d.ErrorFault() != smithy.FaultClient ||
				!errors.Is(err, aws)):
			t.Errorf("%s:\n%s, want\n%s", name, err, c.want)
		}
	}

	if other := errors.New("x"); asDenied("EC2", "DescribeSubnets", other) != other {
		t.Error("an error that is no answer of AWS was changed")
	}
}

// What every call would meet is one sentence with what to do, in place of the SDK's chain; what
// the SDK says besides is for debugging.
func TestTroubleIsNamed(t *testing.T) {
	files := t.TempDir()
	for key, value := range map[string]string{
		"AWS_ACCESS_KEY_ID":           "AKIATEST",
		"AWS_SECRET_ACCESS_KEY":       "x",
		"AWS_MAX_ATTEMPTS":            "1",
		"AWS_PROFILE":                 "",
		"AWS_CONFIG_FILE":             filepath.Join(files, "config"),
		"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(files, "credentials"),
		"AWS_EC2_METADATA_DISABLED":   "true",
	} {
		t.Setenv(key, value)
	}

	dead := httptest.NewServer(nil)
	dead.Close()

	ask := func(ctx context.Context) error {
		s, err := Load(t.Context(), Options{Region: "us-east-2"})
		if err != nil {
			return err
		}

		_, err = ec2.NewFromConfig(s.Config, func(o *ec2.Options) { o.BaseEndpoint = &dead.URL }).
			DescribeRegions(ctx, &ec2.DescribeRegionsInput{})

		return err
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()

	if err := ask(stopped); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("interrupted: %v", err)
	}

	t.Setenv("AWS_PROFILE", "nosuch")

	if err := ask(t.Context()); err == nil || !strings.Contains(err.Error(), `there is no AWS profile "nosuch"`) ||
		!strings.Contains(err.Error(), "aws configure list-profiles") {
		t.Error(err)
	}

	t.Setenv("AWS_PROFILE", "")

	if err := os.WriteFile(filepath.Join(files, "config"), []byte("[default\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	if err := ask(t.Context()); err != nil && strings.HasPrefix(err.Error(), "reading") &&
		!strings.Contains(err.Error(), "fix ~/.aws/config") {
		t.Error(err)
	}
}

// The SDK's own lines are not shown unless somebody debugs.
func TestTheSDKIsQuiet(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "config"))

	var shown, leaked bytes.Buffer

	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before); log.SetOutput(os.Stderr) })

	var level slog.LevelVar
	slog.SetDefault(slog.New(slog.NewTextHandler(&shown, &slog.HandlerOptions{Level: &level})))
	log.SetOutput(&leaked)

	s, err := Load(t.Context(), Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}

	warn := func(cfg aws.Config) {
		if cfg.Logger == nil {
			t.Fatal("the SDK logs to stderr")
		}

		cfg.Logger.Logf(logging.Warn, "falling back to %s", "IMDSv1")
	}
	warn(s.Config)

	if shown.Len()+leaked.Len() > 0 {
		t.Errorf("shown: %s%s", &shown, &leaked)
	}

	level.Set(slog.LevelDebug)
	warn(s.Config)

	if !strings.Contains(shown.String(), `msg="AWS SDK" class=WARN line="falling back to IMDSv1"`) {
		t.Errorf("shown: %s", &shown)
	}
}

// Every call is logged at debug level, with what AWS Support asks for, and no secret.
func TestCallsAreLogged(t *testing.T) {
	const secret, session, userData = "SecretAccessKeyOfATest", "SessionTokenOfATest", "user data of one test"

	t.Setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	t.Setenv("AWS_SESSION_TOKEN", session)

	answers := []struct {
		status   int
		id, body string
	}{
		{
			503,
			"r-1",
			`<Response><Errors><Error><Code>Unavailable</Code></Error></Errors><RequestID>r-1</RequestID></Response>`,
		},
		{200, "r-2", `<CreateLaunchTemplateResponse/>`},
		{
			403,
			"r-3",
			`<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>no</Message></Error></Errors><RequestID>r-3</RequestID></Response>`,
		},
	}

	var sent string

	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = r.Header.Get("Authorization") + string(body)
		w.Header().Set("X-Amzn-Requestid", answers[asked].id)
		w.WriteHeader(answers[asked].status)
		fmt.Fprint(w, answers[asked].body)
		asked++
	}))
	t.Cleanup(server.Close)

	var log bytes.Buffer

	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })

	var level slog.LevelVar
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: &level})))

	s, err := Load(t.Context(), Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}

	client := ec2.NewFromConfig(s.Config, func(o *ec2.Options) { o.BaseEndpoint = &server.URL })
	encoded := base64.StdEncoding.EncodeToString([]byte(userData))
	create := func() {
		_, _ = client.CreateLaunchTemplate(
			t.Context(),
			&ec2.CreateLaunchTemplateInput{
				LaunchTemplateName: aws.String("x"),
				LaunchTemplateData: &types.RequestLaunchTemplateData{UserData: &encoded},
			},
		)
	}

	level.Set(slog.LevelDebug)
	create()

	if !strings.Contains(sent, "AWS4-HMAC-SHA256") || !strings.Contains(sent, "UserData="+encoded) {
		t.Fatalf("what must not be logged was not sent: %s", sent)
	}

	create()
	server.Close()

	_, _ = client.DescribeRegions(
		t.Context(),
		&ec2.DescribeRegionsInput{},
		func(o *ec2.Options) { o.Retryer = aws.NopRetryer{} },
	)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	for i, want := range []string{
		`level=DEBUG msg="AWS call" service=EC2 operation=CreateLaunchTemplate region=us-east-2 ms=* attempts=2 ` +
			`status=200 request_id=r-2`,
		`level=DEBUG msg="AWS call" service=EC2 operation=CreateLaunchTemplate region=us-east-2 ms=* attempts=1 ` +
			`status=403 request_id=r-3 code=UnauthorizedOperation`,
		`level=DEBUG msg="AWS call" service=EC2 operation=DescribeRegions region=us-east-2 ms=* attempts=1 ` +
			`failure=*request send failed*`,
	} {
		if i >= len(lines) || !matches(lines[i], "*"+want) {
			t.Fatalf("line %d of\n%s\nis not %s", i, log.String(), want)
		}
	}

	for _, hidden := range []string{secret, session, "AKIATEST", "AWS4-HMAC", encoded, userData, "Signature"} {
		if strings.Contains(log.String(), hidden) {
			t.Errorf("%q is in the log:\n%s", hidden, log.String())
		}
	}

	level.Set(slog.LevelInfo)
	log.Reset()

	_, _ = client.DescribeRegions(
		t.Context(),
		&ec2.DescribeRegionsInput{},
		func(o *ec2.Options) { o.Retryer = aws.NopRetryer{} },
	)
	if log.Len() > 0 {
		t.Errorf("logged without --log-level debug: %s", log.String())
	}
}

// matches compares with a pattern in which * is anything.
func matches(text, pattern string) bool {
	first, rest, more := strings.Cut(pattern, "*")
	if !strings.HasPrefix(text, first) {
		return false
	}

	if !more {
		return text == first
	}

	for i := len(first); i <= len(text); i++ {
		if matches(text[i:], rest) {
			return true
		}
	}

	return false
}
