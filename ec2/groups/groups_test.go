package groups_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/ec2/groups"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

const arn = "arn:aws:ec2:us-east-2:123456789012:capacity-reservation/cr-0"

// newClient makes a client of an AWS that answers each path with the next of its texts; those that begin with an
// error's name are errors. It returns the bodies of the requests as well.
func newClient(t *testing.T, answers map[string][]string) (*groups.Client, *[]string) {
	t.Helper()

	var asked []string

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			body = nil
		}

		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.EscapedPath()+" "+string(body)))
		left := answers[r.URL.Path]
		if len(left) == 0 {
			left = []string{"NotFoundException"}
		} else {
			answers[r.URL.Path] = left[1:]
		}

		if code, isError := strings.CutSuffix(left[0], "Exception"); isError {
			w.Header().Set("X-Amzn-Errortype", code+"Exception")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"Message":"no such group"}`)

			return
		}

		fmt.Fprint(w, left[0])
	}))
	t.Cleanup(server.Close)

	files := t.TempDir()
	for key, value := range map[string]string{
		"AWS_ENDPOINT_URL":            server.URL,
		"AWS_REGION":                  "us-east-2",
		"AWS_ACCESS_KEY_ID":           "x",
		"AWS_SECRET_ACCESS_KEY":       "x",
		"AWS_CONFIG_FILE":             files + "/config",
		"AWS_SHARED_CREDENTIALS_FILE": files + "/credentials",
	} {
		t.Setenv(key, value)
	}

	shared, err := awsconfig.Load(t.Context(), awsconfig.Options{})
	if err != nil {
		t.Fatal(err)
	}

	return groups.From(shared), &asked
}

func TestMembersOfAllPages(t *testing.T) {
	c, _ := newClient(t, map[string][]string{"/list-group-resources": {
		`{"Resources":[{"Identifier":{"ResourceArn":"` + arn + `1"}},{"Identifier":{"ResourceArn":"` + arn +
			`2"},"Status":{"Name":"PENDING"}},{}],"NextToken":"x"}`,
		`{"Resources":[{"Identifier":{"ResourceArn":"` + arn + `3"}}]}`,
	}})

	ids, err := c.Members(t.Context(), "g")
	if diff := cmp.Diff([]string{"cr-01", "cr-03"}, ids); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}

	if _, err := c.Members(t.Context(), "g"); !groups.IsNotFound(err) {
		t.Errorf("of a group that does not exist: %v", err)
	}
}

// A refused reservation does not keep the others out.
func TestAddNamesTheRefused(t *testing.T) {
	c, asked := newClient(t, map[string][]string{"/group-resources": {
		`{"Failed":[{"ResourceArn":"` + arn + `4","ErrorCode":"RESOURCE_NOT_FOUND","ErrorMessage":"not active"}]}`,
		`{"Pending":[{"ResourceArn":"` + arn + `9"}]}`,
	}})

	var arns []string
	for i := range 11 {
		arns = append(arns, fmt.Sprint(arn, i))
	}

	err := c.Add(t.Context(), "g", arns)
	if len(*asked) != 2 || awsconfig.Code(err) != "RESOURCE_NOT_FOUND" ||
		!strings.Contains(err.Error(), arn+"4") || !strings.Contains(err.Error(), "not active") {
		t.Errorf("error %v after %d calls", err, len(*asked))
	}

	if err := c.Add(t.Context(), "g", arns[:1]); !groups.IsNotFound(err) {
		t.Errorf("to a group that does not exist: %v", err)
	}
}

func TestFindCreateDelete(t *testing.T) {
	const (
		name  = "pcs-capacity-ml-gpu"
		group = "arn:aws:resource-groups:us-east-2:123456789012:group/" + name
		found = `{"Group":{"Name":"` + name + `","GroupArn":"` + group + `"},"Tags":{"a":"b"}}`
	)

	c, asked := newClient(t, map[string][]string{
		"/get-group":                    {"NotFoundException", found},
		"/resources/" + group + "/tags": {`{"Arn":"` + group + `","Tags":{"a":"b"}}`},
		"/groups":                       {found},
		"/delete-group":                 {found},
	})
	want := groups.Group{Name: name, ARN: group, Tags: map[string]string{"a": "b"}}

	if _, is, err := c.Find(t.Context(), name); err != nil || is {
		t.Errorf("before: found %v, %v", is, err)
	}

	made, err := c.Create(t.Context(), name, want.Tags)
	if diff := cmp.Diff(want, made); err != nil || diff != "" {
		t.Errorf("created: %v\n%s", err, diff)
	}

	read, is, err := c.Find(t.Context(), name)
	if diff := cmp.Diff(want, read); err != nil || diff != "" || !is {
		t.Errorf("found %v: %v\n%s", is, err, diff)
	}

	for range 2 {
		if err := c.Delete(t.Context(), name); err != nil {
			t.Error(err)
		}
	}

	create := `POST /groups {"Configuration":[{"Type":"AWS::EC2::CapacityReservationPool"},` +
		`{"Parameters":[{"Name":"allowed-resource-types","Values":["AWS::EC2::CapacityReservation"]}],` +
		`"Type":"AWS::ResourceGroups::Generic"}],"Name":"` + name + `","Tags":{"a":"b"}}`
	if len(*asked) < 2 || (*asked)[1] != create {
		t.Errorf("asked %q", *asked)
	}
}
