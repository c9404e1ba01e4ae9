package awssim

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// call is one request of AWS.
type call struct {
	Service   string // ec2, pcs, resource-groups, iam, sts, ssm
	Operation string
	Region    string
	AccessKey string
	Body      []byte
	requestID string
	form      url.Values // of EC2 requests
	region    *region
}

// operation answers one call, with the simulator's lock held and s.now at the time of the call. An
// error is an *APIError, or else a defect of the simulator.
type operation func(c *call) (body []byte, err error)

// pcsTarget is the prefix of X-Amz-Target in PCS requests.
const pcsTarget = "AWSParallelComputingService."

// maxRequest bounds the body of a request; the largest real ones carry 16 KB of user data.
const maxRequest = 1 << 20

// Handler serves EC2, PCS, Resource Groups, public parameters of Systems Manager and, under /_sim/, the control requests and the metadata of
// instances.
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
	if fault != nil && !s.hitBefore(fault, r) {
		s.breakOff(w, c, fault)
		return
	}
	var out []byte
	s.do(func() { out, err = s.dispatch(c) })
	if fault != nil && fault.breaks() {
		s.breakOff(w, c, fault)
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
		return c, &APIError{Code: "AuthFailure", Status: http.StatusUnauthorized,
			Message: "AWS was not able to validate the provided access credentials: no credential scope in the Authorization header"}
	}
	c.AccessKey, c.Region, c.Service = m[1], m[2], m[3]
	if c.Service == "pcs" {
		target := r.Header.Get("X-Amz-Target")
		op, ok := strings.CutPrefix(target, pcsTarget)
		if !ok {
			return c, apiErrorf("UnknownOperationException", "X-Amz-Target %q is not one of %s…", target, pcsTarget)
		}
		c.Operation = op
		return c, nil
	}
	if c.Service == "ssm" {
		c.Operation = strings.TrimPrefix(r.Header.Get("X-Amz-Target"), ssmTarget)
		return c, nil
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

// dispatch counts the call, throttles it, checks its parameters and runs its operation.
// Called with mu held.
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
	case "iam":
		ops = s.iamOperations()
	case "pcs":
		ops = s.pcs
	case "ssm":
		ops = s.ssmOperations()
	default:
		return nil, apiErrorf("UnknownOperationException", "the simulator has no service %q", c.Service)
	}
	op := ops[c.Operation]
	if op == nil {
		return nil, unknownOperation(c)
	}
	if c.region = s.regions[c.Region]; c.region == nil && c.Service != "sts" && c.Service != "iam" {
		return nil, &APIError{Code: "AuthFailure", Status: http.StatusUnauthorized,
			Message: "AWS was not able to validate the provided access credentials: the simulated account has no region " + c.Region}
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
	if c.Service == "pcs" || c.Service == "ssm" {
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
			api = &APIError{Code: "InternalError", Message: "defect in the simulator: " + err.Error(), Status: http.StatusInternalServerError}
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
	case "ssm":
		contentType = "application/x-amz-json-1.1"
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Amzn-Requestid", c.requestID)
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone needs no answer
}

func errorBody(c *call, e *APIError) []byte {
	switch c.Service {
	case "pcs":
	case "ssm":
		body, err := json.Marshal(map[string]string{"__type": e.Code, "Message": e.Message})
		if err != nil {
			panic(err)
		}
		return body
	default:
		return ec2ErrorBody(c, e)
	}
	e = pcsError(e)
	members := map[string]any{"__type": "com.amazonaws.pcs#" + e.Code, "message": e.Message}
	maps.Copy(members, e.Detail)
	body, err := json.Marshal(members)
	if err != nil {
		panic(err) // Detail holds plain values only
	}
	return body
}

// waitReal sleeps for a fault's latency, or until the client is gone.
func waitReal(r *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}
