package awssim

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"golang.org/x/time/rate"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim/shapes"
)

// call is one request of AWS.
type call struct {
	Service   string // ec2, pcs, resource-groups, sts
	Operation string
	Region    string
	AccessKey string
	Body      []byte
	requestID string
	form      url.Values // of EC2 requests
	in        object     // what the form says, by the names of the service model
	region    *region
	later     *Fault // what the call begins fails in the end; nil if it does not
}

// operation answers one call, with the simulator's lock held and s.now at the time of the call. An
// error is an *APIError, or else a defect of the simulator.
type operation func(c *call) (body []byte, err error)

// pcsTarget is the prefix of X-Amz-Target in PCS requests.
const pcsTarget = "AWSParallelComputingService."

// maxRequest bounds the body of a request; the largest real ones carry 16 KB of user data.
const maxRequest = 1 << 20

// Handler serves EC2, PCS, Resource Groups and, under /_sim/, the control requests and the metadata of instances.
func (s *Sim) Handler() http.Handler {
	mux := http.NewServeMux()
	s.routeControl(mux)
	s.routeMetadata(mux)
	mux.HandleFunc("/", s.serveAWS)

	return s.showClock(mux)
}

// showClock sets the Date header of every answer from the simulated clock.
func (s *Sim) showClock(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.clock.called()
		w.Header().Set("Date", s.clock.Now().Format(http.TimeFormat))
		next.ServeHTTP(w, r)
	})
}

func (s *Sim) serveAWS(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}

	c, err := parseCall(r, body)
	if err != nil {
		s.answer(w, c, nil, err)
		return
	}

	fault := s.takeFault(c)
	if fault != nil && !s.awaitLatency(fault, r) {
		s.dropConnection(w, c, fault)
		return
	}

	if fault != nil && fault.Effect == FailLater {
		c.later = fault
	}

	var out []byte
	s.do(func() { out, err = s.dispatch(c) })

	if fault != nil && fault.breaks() {
		s.dropConnection(w, c, fault)
		return
	}

	s.answer(w, c, out, err)
}

// scope finds key, region and service in the credential scope: Credential=KEY/DATE/REGION/SERVICE/aws4_request.
var scope = regexp.MustCompile(`Credential=([^/]+)/[^/]+/([^/]+)/([^/]+)/aws4_request`)

func parseCall(r *http.Request, body []byte) (*call, error) {
	id := make([]byte, 16)
	rand.Read(id)

	c := &call{Service: "ec2", Body: body, requestID: hex.EncodeToString(id)}
	m := scope.FindStringSubmatch(r.Header.Get("Authorization"))
	if m == nil {
		return c, &APIError{
			Code:   "AuthFailure",
			Status: http.StatusUnauthorized,
			Message: "AWS was not able to validate the provided access credentials: no credential scope in the " +
				"Authorization header",
		}
	}

	c.AccessKey = m[1]
	c.Region = m[2]
	c.Service = m[3]
	if c.Service == "pcs" {
		target := r.Header.Get("X-Amz-Target")
		op, ok := strings.CutPrefix(target, pcsTarget)
		if !ok {
			return c, apiErrorf("UnknownOperationException", "X-Amz-Target %q is not one of %s…", target, pcsTarget)
		}

		c.Operation = op

		return c, nil
	}

	if c.Service == groupsService {
		var err error

		c.Operation, c.Body, err = groupsCall(r, body)

		return c, err
	}

	form, err := url.ParseQuery(string(body))
	if err != nil {
		return c, apiErrorf("MalformedQueryString", "The query string contains a syntax error: %v", err)
	}

	for key, values := range r.URL.Query() { // EC2 takes parameters of the URL too
		form[key] = append(form[key], values...)
	}

	c.form, c.Operation = form, form.Get("Action")
	if c.Operation == "" {
		return c, apiErrorf("MissingAction", "The request is missing an action.")
	}

	return c, nil
}

// dispatch counts the call, throttles it, checks its parameters and runs its operation. Called with mu held.
func (s *Sim) dispatch(c *call) ([]byte, error) {
	s.calls[CallKey{c.Service, c.Operation, c.Region}]++
	if s.callers[c.AccessKey] == nil {
		s.callers[c.AccessKey] = map[string]bool{}
	}

	s.callers[c.AccessKey][c.Service+":"+c.Operation] = true

	var ops map[string]operation
	switch c.Service {
	case "ec2":
		ops = s.ec2
	case "sts":
		ops = s.stsOperations()
	case "pcs":
		ops = s.pcs
	case groupsService:
		ops = s.groups
	default:
		return nil, apiErrorf("UnknownOperationException", "the simulator has no service %q", c.Service)
	}

	op := ops[c.Operation]
	if op == nil {
		return nil, unknownOperation(c)
	}

	c.region = s.regions[c.Region]
	if c.region == nil && c.Service != "sts" {
		return nil, &APIError{
			Code:   "AuthFailure",
			Status: http.StatusUnauthorized,
			Message: "AWS was not able to validate the provided access credentials: the simulated account has no " +
				"region " + c.Region,
		}
	}

	if err := s.throttle(c); err != nil {
		return nil, err
	}

	if err := checkRequest(c); err != nil {
		return nil, err
	}

	return op(c)
}

func unknownOperation(c *call) error {
	if c.Service == "pcs" {
		return apiErrorf("UnknownOperationException", "the simulator has no operation %s", c.Operation)
	}
	return apiErrorf("InvalidAction", "The action %s is not valid for this web service.", c.Operation)
}

// answer sends a result or an error in the format of the service.
func (s *Sim) answer(w http.ResponseWriter, c *call, body []byte, err error) {
	status := http.StatusOK
	if err != nil {
		var api *APIError
		if !errors.As(err, &api) {
			api = &APIError{
				Code:    "InternalError",
				Message: "defect in the simulator: " + err.Error(),
				Status:  http.StatusInternalServerError,
			}
		}

		status = api.status()
		body = errorBody(c, api)
	}

	s.mu.Lock()
	hooks := s.onResponse
	s.mu.Unlock()

	for _, f := range hooks {
		f(c.Service, c.Operation, status, body)
	}

	contentType := "text/xml;charset=UTF-8"
	switch c.Service {
	case "pcs":
		contentType = "application/x-amz-json-1.0"
	case groupsService:
		contentType = "application/json"
	}

	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Amzn-Requestid", c.requestID)
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone needs no answer
}

func errorBody(c *call, e *APIError) []byte {
	var members map[string]any
	switch c.Service {
	case "pcs":
		e = pcsError(e)
		members = map[string]any{"__type": "com.amazonaws.pcs#" + e.Code, "message": e.Message}
		maps.Copy(members, e.Detail)
	case groupsService:
		code := e.Code
		if code == "InternalError" {
			code = "InternalServerErrorException"
		}

		members = map[string]any{"__type": "com.amazonaws.resourcegroups#" + code, "Message": e.Message}
	default:
		return ec2ErrorBody(c, e)
	}

	body, err := json.Marshal(members)
	if err != nil {
		panic(err) // Detail holds plain values only
	}

	return body
}

// APIError is an error as AWS answers it.
type APIError struct {
	Code    string
	Message string
	Status  int            // HTTP status; 0 means 400
	Detail  map[string]any // further members of a PCS exception, such as resourceId
}

func (e *APIError) Error() string { return e.Code + ": " + e.Message }

func (e *APIError) status() int {
	if e.Status == 0 {
		return http.StatusBadRequest
	}
	return e.Status
}

// apiErrorf makes an error with HTTP status 400.
func apiErrorf(code, format string, args ...any) *APIError {
	return &APIError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// checkRequest compares a request with AWS's service model, and refuses what differs in the words of the service.
func checkRequest(c *call) error {
	var err error
	if c.form != nil {
		c.in, err = shapes.CheckForm(c.Service, c.Operation, c.form)
	} else {
		err = shapes.CheckJSON(c.Service, c.Operation, c.Body)
	}

	var shape *shapes.Error
	if !errors.As(err, &shape) {
		return err
	}

	switch c.Service {
	case "pcs":
		return pcsShapeError(c, shape)
	case groupsService:
		return badGroupRequest("%v", shape)
	case "ec2":
		return ec2ShapeError(c, shape.Violations)
	}

	return &APIError{Code: "ValidationError", Status: http.StatusBadRequest, Message: shape.Error()} // STS
}

// ec2ShapeError tells of one parameter, as EC2 does.
func ec2ShapeError(c *call, all []shapes.Violation) error {
	switch first := all[0]; first.Kind {
	case shapes.Unknown:
		return apiErrorf("UnknownParameter", "The parameter %s is not recognized", first.Path)
	case shapes.Missing:
		return apiErrorf("MissingParameter", "The request must contain the parameter %s", first.Path)
	default:
		return apiErrorf(
			"InvalidParameterValue",
			"Value (%s) for parameter %s is invalid. %s",
			c.form.Get(first.Path),
			first.Path,
			first.Problem,
		)
	}
}

func pcsShapeError(c *call, shape *shapes.Error) error {
	if !json.Valid(c.Body) {
		return &APIError{
			Code:    "ValidationException",
			Message: shape.Violations[0].Problem,
			Detail:  map[string]any{"reason": "cannotParse"},
		}
	}

	var v pcsValidation
	for _, violation := range shape.Violations {
		v.add(violation.Path, "%s", violation.Problem)
	}

	return v.err()
}

// scarce bounds the calls that EC2 takes at once for each account and region, and those a second then (EC2 Developer
// Guide, ec2-api-throttling).
var scarce = map[string]struct {
	burst  int
	second rate.Limit
}{
	"RunInstances":                            {5, 2},
	"DescribeCapacityBlockOfferings":          {10, 0.15},
	"PurchaseCapacityBlock":                   {10, 0.15},
	"DescribeCapacityBlockExtensionOfferings": {10, 0.15},
	"PurchaseCapacityBlockExtension":          {10, 0.15},
}

// throttle takes a token from the bucket of a scarce call. Called with mu held.
func (s *Sim) throttle(c *call) error {
	limit, limited := scarce[c.Operation]
	if !s.scenario.Throttle || !limited {
		return nil
	}

	key := CallKey{c.Service, c.Operation, c.Region}
	if s.buckets[key] == nil {
		s.buckets[key] = rate.NewLimiter(limit.second, limit.burst)
	}

	if s.buckets[key].AllowN(s.now, 1) {
		return nil
	}

	return &APIError{
		Code:    "RequestLimitExceeded",
		Message: "Request limit exceeded.",
		Status:  http.StatusServiceUnavailable,
	}
}
