package pcs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// collectUnknown makes a read of a node group put into names the settings of its answer
// that this version of the SDK has no field for, such as nodeLifecycleActions: the SDK
// drops them without a word.
func collectUnknown(names *[]string) func(*pcs.Options) {
	collect := func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		answer, ok := out.RawResponse.(*smithyhttp.Response)
		if err != nil || !ok || answer.StatusCode != 200 {
			return out, metadata, err
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return out, metadata, fmt.Errorf("reading the answer: %w", err)
		}
		answer.Body = io.NopCloser(bytes.NewReader(body))
		*names = unknownIn(body)
		return out, metadata, nil
	}
	return func(o *pcs.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			// After the SDK's own decoder, so nearer to the wire.
			return stack.Deserialize.Insert(middleware.DeserializeMiddlewareFunc("UnknownSettings", collect), "OperationDeserializer", middleware.After)
		})
	}
}

// unknownIn names the members of a node group that types.ComputeNodeGroup lacks, and those
// of its Slurm configuration. What is no answer of PCS is the decoder's to refuse.
func unknownIn(body []byte) []string {
	var answer struct {
		Group map[string]json.RawMessage `json:"computeNodeGroup"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil
	}
	names := notFieldsOf(reflect.TypeFor[types.ComputeNodeGroup](), answer.Group)
	var slurm map[string]json.RawMessage
	if json.Unmarshal(answer.Group["slurmConfiguration"], &slurm) == nil {
		for _, name := range notFieldsOf(reflect.TypeFor[types.ComputeNodeGroupSlurmConfiguration](), slurm) {
			names = append(names, "slurmConfiguration."+name)
		}
	}
	slices.Sort(names)
	return names
}

// notFieldsOf names the members that have a value and no field in an SDK structure, whose
// fields are called as on the wire but for the first letter.
func notFieldsOf(t reflect.Type, members map[string]json.RawMessage) []string {
	var names []string
	for name, value := range members {
		if name == "" || slices.Contains([]string{"null", "{}", "[]"}, string(value)) {
			continue
		}
		if _, found := t.FieldByName(strings.ToUpper(name[:1]) + name[1:]); !found {
			names = append(names, name)
		}
	}
	return names
}
