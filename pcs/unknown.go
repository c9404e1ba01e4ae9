package pcs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// keepAnswer makes a read leave its answer in to: the SDK drops silently what this version of it has no field for.
func keepAnswer(to *[]byte) func(*pcs.Options) {
	keep := func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
		middleware.DeserializeOutput, middleware.Metadata, error,
	) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		if answer, ok := out.RawResponse.(*smithyhttp.Response); ok && err == nil {
			*to, err = io.ReadAll(answer.Body)
			answer.Body = io.NopCloser(bytes.NewReader(*to))
		}

		return out, metadata, err
	}

	return func(o *pcs.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			// After the SDK's own decoder, so nearer to the wire.
			return stack.Deserialize.Insert(middleware.DeserializeMiddlewareFunc("KeepAnswer", keep),
				"OperationDeserializer", middleware.After)
		})
	}
}

// describe reads a thing of a kind by a call: the structure of that name in the answer into one, as encoding/json does.
// unknown names what is set there and has no field in one. found is false when there is no such thing.
func describe[In, Out any](
	ctx context.Context,
	what, name string,
	call func(context.Context, *In, ...func(*pcs.Options)) (*Out, error),
	in *In,
	structure string,
	one any,
) (unknown []string, found bool, err error) {
	var (
		answer  []byte
		said    map[string]json.RawMessage
		members map[string]any
	)

	_, err = call(ctx, in, keepAnswer(&answer))
	if err == nil {
		err = json.Unmarshal(answer, &said)
	}

	if err == nil && len(said[structure]) > 0 {
		err = cmp.Or(json.Unmarshal(said[structure], one), json.Unmarshal(said[structure], &members))
	}

	switch {
	case IsNotFound(err):
		return nil, false, nil
	case err == nil && members == nil:
		err = ErrNotDescribed
	}

	if err != nil {
		return nil, false, fmt.Errorf("reading %s %s: %w", what, name, err)
	}

	return unknownIn(reflect.TypeOf(one), members, ""), true, nil
}

// unknownIn names what is set in a JSON value and has no field in a type. Lists of structures are searched as well.
func unknownIn(t reflect.Type, value any, path string) (names []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}

	switch v := value.(type) {
	case []any:
		for _, item := range v {
			names = append(names, unknownIn(t, item, path)...)
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return nil
		}

		fields := reflect.VisibleFields(t)
		for name, one := range v {
			at := slices.IndexFunc(fields,
				func(f reflect.StructField) bool { return strings.EqualFold(cmp.Or(f.Tag.Get("json"), f.Name), name) })
			if at >= 0 {
				names = append(names, unknownIn(fields[at].Type, one, path+name+".")...)
			} else if text := fmt.Sprint(one); text != "<nil>" && text != "map[]" && text != "[]" {
				names = append(names, path+name)
			}
		}
	}

	slices.Sort(names)

	return slices.Compact(names)
}

// LostByUpdate returns the unknown settings that an update of the group could lose: PCS replaces each member that it
// gets, and keeps all others.
func (g NodeGroup) LostByUpdate() []string {
	return namesIn(g.Unknown, "customLaunchTemplate", "scalingConfiguration")
}

// LostByUpdate returns the unknown settings that an update of the queue, with the wanted Slurm settings, could lose;
// each update sends the list of its node groups.
func (q Queue) LostByUpdate(want map[string]string) []string {
	members := []string{"computeNodeGroupConfigurations"}
	if q.withSettings(want) != nil {
		members = append(members, "slurmConfiguration")
	}

	return namesIn(q.Unknown, members...)
}

// namesIn returns the names of settings that lie in one of the members.
func namesIn(names []string, members ...string) (all []string) {
	for _, name := range names {
		if member, _, deeper := strings.Cut(name, "."); deeper && slices.Contains(members, member) {
			all = append(all, name)
		}
	}

	return all
}

// ErrUnknown is the refusal of a change that could lose settings of PCS unknown to this program.
var ErrUnknown = errors.New(
	"it has settings that this version of pcs-capacity does not know, and this change could lose them",
)

// checkLost refuses a change that could lose settings.
func checkLost(what, name string, lost []string) error {
	if len(lost) == 0 {
		return nil
	}

	return fmt.Errorf("%s %s is not updated: %w: %s; change it in PCS", what, name, ErrUnknown,
		strings.Join(lost, ", "))
}

// LifecycleActions are the nodeLifecycleActions of a node group, as PCS said them: scripts that mount file systems and
// install software when a node boots. The SDK has no field for them, so they go over the wire as they came. Without
// any, those of a group stay as they are.
type LifecycleActions map[string]any

// String names the scripts with their stages: "nodeBootstrapped: mount, nodeReady: runtime".
func (a LifecycleActions) String() string {
	var said struct {
		Stages map[string][]struct{ Name string }
	}

	text, _ := json.Marshal(a) // it was JSON

	_ = json.Unmarshal(text, &said) // of another form there are none

	var scripts []string
	for _, stage := range slices.Sorted(maps.Keys(said.Stages)) {
		for _, script := range said.Stages[stage] {
			scripts = append(scripts, stage+": "+script.Name)
		}
	}

	return strings.Join(scripts, ", ")
}

// sendActions adds lifecycle actions to a request; none leaves it as it is.
func sendActions(actions LifecycleActions) func(*pcs.Options) {
	add := func(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (
		out middleware.SerializeOutput, m middleware.Metadata, err error,
	) {
		request := in.Request.(*smithyhttp.Request) // as the SDK's own serializer has made it

		var members map[string]any
		if err = json.NewDecoder(request.GetStream()).Decode(&members); err == nil {
			members["nodeLifecycleActions"] = actions
			body, _ := json.Marshal(members) // what has been decoded can be encoded
			in.Request, err = request.SetStream(bytes.NewReader(body))
		}

		if err != nil {
			return out, m, fmt.Errorf("adding the lifecycle actions: %w", err)
		}

		return next.HandleSerialize(ctx, in)
	}

	return func(o *pcs.Options) {
		if len(actions) > 0 {
			o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
				return stack.Serialize.Insert(middleware.SerializeMiddlewareFunc("LifecycleActions", add),
					"OperationSerializer", middleware.After)
			})
		}
	}
}
