package awssim

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim/shapes"
)

// checkShapes fails the test for every answer in JSON that differs from AWS's service model. Those as EC2 are made by it.
func checkShapes(t testing.TB, sim *Sim) {
	sim.OnResponse(func(service, operation string, status int, body []byte) {
		if err := shapes.CheckAnswer(service, operation, status, body); err != nil {
			t.Errorf("%v\nanswer (HTTP %d): %s", err, status, body)
		}
	})
}

// noon is when the clocks of the tests start: 30 minutes after noon UTC, so before and after an 11:30 are both near.
var noon = time.Date(2026, 12, 1, 12, 30, 0, 0, time.UTC)

// wireSim starts a simulator of a scenario in TOML on a free port, with a clock that stands still, and returns it with
// its endpoint. Every answer is checked against the service model.
func wireSim(t testing.TB, scenario string) (*Sim, string) {
	t.Helper()

	sc, err := ParseScenario(t.Name(), []byte(scenario))
	if err != nil {
		t.Fatal(err)
	}

	sim, err := New(sc, NewClock(noon, 0))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { sim.Close() })
	checkShapes(t, sim)

	endpoint, err := sim.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	return sim, endpoint
}

var dummyCredentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "AKIASIMULATED", SecretAccessKey: "simulated"}, nil
})

// pcsClient is the SDK's client, without retries.
func pcsClient(endpoint string) *pcs.Client {
	return pcs.New(
		pcs.Options{
			Region:       "us-east-2",
			BaseEndpoint: &endpoint,
			Credentials:  dummyCredentials,
			Retryer:      aws.NopRetryer{},
			HTTPClient:   loopbackClient{},
		},
	)
}

// ec2Client is the SDK's client, without retries.
func ec2Client(endpoint string) *ec2.Client {
	return ec2.New(
		ec2.Options{
			Region:       "us-east-2",
			BaseEndpoint: &endpoint,
			Credentials:  dummyCredentials,
			Retryer:      aws.NopRetryer{},
			HTTPClient:   loopbackClient{},
		},
	)
}

// loopbackClient is the default HTTP client without a race of the SDK that shows on loopback, where an answer comes
// within microseconds: smithy-go closes the body of the request as soon as the answer's header is there, and a closed
// body answers io.EOF to WriteTo, which net/http may still call to see whether the body is longer than announced. It
// takes that for a failed write and cuts the connection in the middle of the answer. Without WriteTo it calls Read.
// The SDK retries such a call (aws-sdk-go-v2 issue 2737), but these clients never retry.
type loopbackClient struct{}

func (loopbackClient) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return http.DefaultClient.Do(r)
}

// The record of shapes holds the operations that the simulator answers. What is missing
// is added to shapes/shapes.py, which then has to run again.
func TestEveryOperationIsRecorded(t *testing.T) {
	sim, _ := wireSim(t, string(defaultTOML))
	for service, operations := range map[string]map[string]operation{
		"ec2": sim.ec2, "pcs": sim.pcs, "sts": sim.stsOperations(), groupsService: sim.groups,
	} {
		if diff := cmp.Diff(shapes.Operations(service), slices.Sorted(maps.Keys(operations))); diff != "" {
			t.Errorf("%s: -recorded +answered:\n%s", service, diff)
		}
	}
}

// The record holds every operation that the product calls, so its requests are checked wherever a test sends them.
func TestEveryCallIsRecorded(t *testing.T) {
	const sdk = "github.com/aws/aws-sdk-go-v2/service/"

	services := map[string]string{"ec2": "ec2", "pcs": "pcs", "sts": "sts", "resourcegroups": groupsService}

	calls := 0
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, d.Name()) {
			return fs.SkipDir
		}

		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}

		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}

		imported := map[string]string{} // name in the file → service
		for _, i := range file.Imports {
			full, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}

			if name, ok := strings.CutPrefix(full, sdk); ok && !strings.Contains(name, "/") {
				local := name
				if i.Name != nil {
					local = i.Name.Name
				}

				imported[local] = name
			}
		}

		ast.Inspect(file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}

			of, _ := selector.X.(*ast.Ident)
			operation, isInput := strings.CutSuffix(selector.Sel.Name, "Input")
			if of == nil || imported[of.Name] == "" || !isInput {
				return true
			}

			calls++

			if service := services[imported[of.Name]]; !slices.Contains(shapes.Operations(service), operation) {
				t.Errorf("%s: %s of %s is not in the record", path, operation, imported[of.Name])
			}

			return true
		})

		return nil
	})
	if err != nil || calls < 50 {
		t.Fatal(calls, err)
	}
}
