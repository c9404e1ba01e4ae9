package awssim

import (
	"fmt"
	"maps"
	"net/http"
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

// pcsConflict is about something that is there; nil for nothing.
func pcsConflict(about *pcsThing, format string, args ...any) error {
	return pcsAbout("ConflictException", about, format, args...)
}

func pcsQuota(about *pcsThing, format string, args ...any) error {
	e := pcsAbout("ServiceQuotaExceededException", about, format, args...)
	e.Detail["serviceCode"] = "pcs"
	return e
}

func pcsNotFound(kind, id string) error {
	return pcsAbout("ResourceNotFoundException", &pcsThing{kind: kind, ID: id}, "no %s has the name or id %q", kind, id)
}

func pcsAbout(code string, about *pcsThing, format string, args ...any) *APIError {
	e := apiErrorf(code, format, args...)
	e.Detail = map[string]any{}
	if about != nil {
		e.Detail["resourceType"], e.Detail["resourceId"] = about.kind, about.ID
	}
	return e
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
	maps.Copy(out.Detail, e.Detail)
	return &out
}
