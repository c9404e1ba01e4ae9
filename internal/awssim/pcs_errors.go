package awssim

import (
	"fmt"
	"net/http"
)

// Resource types in PCS's exceptions.
const (
	kindCluster = "CLUSTER"
	kindGroup   = "COMPUTE_NODE_GROUP"
	kindQueue   = "QUEUE"
)

// pcsValidation collects the fields of a request that are wrong, for one ValidationException.
type pcsValidation struct {
	fields []map[string]string
}

func (v *pcsValidation) add(field, format string, args ...any) {
	v.fields = append(v.fields, map[string]string{"name": field, "message": fmt.Sprintf(format, args...)})
}

// err returns nil if no field is wrong.
func (v *pcsValidation) err() error {
	if len(v.fields) == 0 {
		return nil
	}
	message := v.fields[0]["message"]
	if name := v.fields[0]["name"]; name != "" {
		message = name + ": " + message
	}
	if more := len(v.fields) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	return &APIError{Code: "ValidationException", Message: message,
		Detail: map[string]any{"reason": "fieldValidationFailed", "fieldList": v.fields}}
}

// invalid is a ValidationException for one field.
func pcsInvalid(field, format string, args ...any) error {
	var v pcsValidation
	v.add(field, format, args...)
	return v.err()
}

func pcsConflict(kind, id, format string, args ...any) error {
	e := apiErrorf("ConflictException", format, args...)
	e.Detail = map[string]any{"resourceType": kind, "resourceId": id}
	return e
}

func pcsNotFound(kind, id string) error {
	e := apiErrorf("ResourceNotFoundException", "no %s has the name or id %q", kind, id)
	e.Detail = map[string]any{"resourceType": kind, "resourceId": id}
	return e
}

func pcsQuota(kind, id, format string, args ...any) error {
	e := apiErrorf("ServiceQuotaExceededException", format, args...)
	e.Detail = map[string]any{"serviceCode": "pcs", "resourceType": kind, "resourceId": id}
	return e
}

// notActive is the answer to a change of something that PCS is changing already.
func pcsNotActive(kind, id, status string) error {
	return pcsConflict(kind, id, "%s %s is in status %s, not ACTIVE", kind, id, status)
}

// pcsError gives an error that arose outside PCS the form of a modelled exception: a fault without a code, a defect of
// the simulator, and exceptions with required members that a fault did not set.
func pcsError(e *APIError) *APIError {
	out := *e
	out.Detail = map[string]any{}
	switch e.Code {
	case "InternalError":
		out.Code, out.Status = "InternalServerException", http.StatusInternalServerError
	case "ValidationException":
		out.Detail["reason"] = "other"
	case "ConflictException", "ResourceNotFoundException":
		out.Detail["resourceId"], out.Detail["resourceType"] = "", ""
	case "ServiceQuotaExceededException":
		out.Detail["serviceCode"] = "pcs"
	}
	for name, value := range e.Detail {
		out.Detail[name] = value
	}
	return &out
}
