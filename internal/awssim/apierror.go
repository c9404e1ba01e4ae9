package awssim

import (
	"fmt"
	"net/http"
)

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
