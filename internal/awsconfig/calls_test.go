package awsconfig

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

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
		{503, "r-1", `<Response><Errors><Error><Code>Unavailable</Code></Error></Errors><RequestID>r-1</RequestID></Response>`},
		{200, "r-2", `<CreateLaunchTemplateResponse/>`},
		{403, "r-3", `<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>no</Message></Error></Errors><RequestID>r-3</RequestID></Response>`},
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
		_, _ = client.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("x"),
			LaunchTemplateData: &types.RequestLaunchTemplateData{UserData: &encoded}})
	}
	level.Set(slog.LevelDebug)
	create()
	if !strings.Contains(sent, "AWS4-HMAC-SHA256") || !strings.Contains(sent, "UserData="+encoded) {
		t.Fatalf("what must not be logged was not sent: %s", sent)
	}
	create()
	server.Close()
	_, _ = client.DescribeRegions(t.Context(), &ec2.DescribeRegionsInput{}, func(o *ec2.Options) { o.Retryer = aws.NopRetryer{} })
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	for i, want := range []string{
		`level=DEBUG msg="AWS call" service=EC2 operation=CreateLaunchTemplate region=us-east-2 ms=* attempts=2 status=200 request_id=r-2`,
		`level=DEBUG msg="AWS call" service=EC2 operation=CreateLaunchTemplate region=us-east-2 ms=* attempts=1 status=403 request_id=r-3 code=UnauthorizedOperation`,
		`level=DEBUG msg="AWS call" service=EC2 operation=DescribeRegions region=us-east-2 ms=* attempts=1 failure=*request send failed*`,
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
	_, _ = client.DescribeRegions(t.Context(), &ec2.DescribeRegionsInput{}, func(o *ec2.Options) { o.Retryer = aws.NopRetryer{} })
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
